# install.cmake: what `cmake --install` and `cpack` put where. Data goes to share/dcpsim, where sim/base/share.c looks for
# it from the program's and the library's own place: an installed tree may be moved.
if(TARGET dcpsim)
  install(TARGETS dcpsim RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Man pages are the help texts, so the program that was built writes them.
  install(CODE "execute_process(COMMAND sh \"${PROJECT_SOURCE_DIR}/packaging/man.sh\" \"${PROJECT_BINARY_DIR}/dcpsim\"
                                        \"${PROJECT_BINARY_DIR}/man\" RESULT_VARIABLE status)
                if(NOT status EQUAL 0)
                  message(FATAL_ERROR \"packaging/man.sh failed: \${status}\")
                endif()")
  install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES packaging/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME dcpsim)
endif()
install(TARGETS dcpsim_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES sim/dcpsim.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
configure_file(packaging/dcpsim.pc.in ${PROJECT_BINARY_DIR}/dcpsim.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dcpsim.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

foreach(folder traces/data models/presets calib/data calib/params)
  install(DIRECTORY ${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/dcpsim/${folder})
endforeach()
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DATADIR}/dcpsim)
install(FILES README.md docs/FORMATS.md docs/GLOSSARY.md docs/TRAINERS.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# `cpack --config build/release/CPackConfig.cmake` makes dcpsim_VERSION_ARCHITECTURE.deb.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dcpsim)
set(CPACK_PACKAGE_CONTACT "the dcpsim authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Simulates GPU clusters that train on sequences of very different lengths")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, libopenblas0-pthread") # plots; execution on CPUs
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(DPKG_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)
