# fatbin.cmake: kernels/*.cu -> one fatbin -> bytes in dcpsim_kernels (fatbin.h), where there is an nvcc that works. The
# program needs no CUDA library to link or to start. Beside each cubin lies X.ptxas, the compiler's report on registers
# and spills, which tests/cuda/resources.sh reads.
option(DCPSIM_CUDA "Compile the CUDA kernels, where nvcc is found" ON)

set(DCPSIM_NVCC_FLAGS -I${PROJECT_SOURCE_DIR} -std=c++17 -gencode=arch=compute_90a,code=sm_90a -expt-relaxed-constexpr
                      -rdc=true)
set(kernels_folder ${PROJECT_BINARY_DIR}/kernels)
file(MAKE_DIRECTORY ${kernels_folder})

# Whether nvcc can make a cubin: a version that knows the GPU, and a host compiler that it accepts.
if(DCPSIM_CUDA)
  find_program(DCPSIM_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(DCPSIM_NVCC AND NOT DCPSIM_NVCC_WORKS STREQUAL DCPSIM_NVCC)
    file(WRITE ${kernels_folder}/try.cu "extern \"C\" __global__ void try_it(int *p) { *p = 1; }\n")
    execute_process(COMMAND ${DCPSIM_NVCC} ${DCPSIM_NVCC_FLAGS} -cubin -o ${kernels_folder}/try.bin
                            ${kernels_folder}/try.cu
                    RESULT_VARIABLE nvcc_result OUTPUT_QUIET ERROR_VARIABLE nvcc_error)
    if(nvcc_result EQUAL 0)
      set(DCPSIM_NVCC_WORKS ${DCPSIM_NVCC} CACHE INTERNAL "the nvcc that was tried, and works")
    endif()
  endif()
endif()

if(NOT DCPSIM_CUDA)
  message(STATUS "CUDA kernels: not compiled (DCPSIM_CUDA is off)")
elseif(NOT DCPSIM_NVCC)
  message(STATUS "CUDA kernels: not compiled (no nvcc)")
elseif(NOT DCPSIM_NVCC_WORKS STREQUAL DCPSIM_NVCC)
  string(REGEX REPLACE "\n.*" "" nvcc_error "${nvcc_error}")
  message(STATUS "CUDA kernels: not compiled (${DCPSIM_NVCC} fails: ${nvcc_error})")
else()
  message(STATUS "CUDA kernels: compiled for sm_90a by ${DCPSIM_NVCC}")
  get_filename_component(cuda_bin ${DCPSIM_NVCC} REALPATH)
  get_filename_component(cuda_bin ${cuda_bin} DIRECTORY)
  file(GLOB kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*.cu)
  set(cubins)
  foreach(source IN LISTS kernel_sources)
    get_filename_component(name ${source} NAME_WE)
    set(cubin ${kernels_folder}/${name}.cubin)
    string(JOIN " " compile "'${DCPSIM_NVCC}'" ${DCPSIM_NVCC_FLAGS} -Xptxas -v -cubin -MD -MF ${cubin}.d -o ${cubin}
           ${source})
    add_custom_command(
      OUTPUT ${cubin}
      COMMAND sh -c "${compile} >${kernels_folder}/${name}.ptxas 2>&1 || { cat ${kernels_folder}/${name}.ptxas; exit 1; }"
      DEPENDS ${source}
      DEPFILE ${cubin}.d
      COMMENT "Compiling kernels/${name}.cu for sm_90a"
      VERBATIM)
    list(APPEND cubins ${cubin})
  endforeach()
  set(fatbin ${kernels_folder}/dcpsim.fatbin)
  add_custom_command(
    OUTPUT ${fatbin}
    COMMAND ${cuda_bin}/nvlink --arch=sm_90a ${cubins} -o ${kernels_folder}/linked.elf
    COMMAND ${cuda_bin}/fatbinary --64 --create=${fatbin} --image3=kind=elf,sm=90a,file=${kernels_folder}/linked.elf
    DEPENDS ${cubins}
    COMMENT "Linking the CUDA kernels"
    VERBATIM)
  set_source_files_properties(kernels/fatbin.c PROPERTIES OBJECT_DEPENDS ${fatbin}
                              COMPILE_DEFINITIONS DCPSIM_FATBIN_FILE="${fatbin}")
  target_compile_definitions(dcpsim_kernels PRIVATE DCPSIM_HAVE_FATBIN)
  set(DCPSIM_HAVE_FATBIN ON)
endif()
