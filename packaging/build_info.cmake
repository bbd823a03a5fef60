# build_info.cmake: writes OUT with what `dcpsim --version` says, only when it has changed. Run at every build, since a
# commit changes nothing else. Needs SOURCE, OUT, TEMPLATE, COMPILER, BUILD_TYPE, MPI, CUDA, SANITIZERS.
set(COMMIT unknown)
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git) # not the repository of somebody who has our sources inside
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(status EQUAL 0)
    set(COMMIT ${described})
  endif()
endif()
configure_file(${TEMPLATE} ${OUT} @ONLY)
