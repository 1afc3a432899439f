# What the build takes from the system, or the line that says how to bring it.

# sb_need(VARIABLE NAME PACKAGE): VARIABLE, which a find_... has filled in, is the place of NAME.
function(sb_need variable name package)
  if(NOT ${variable})
    message(FATAL_ERROR "${name} was not found. It is in the Debian and Ubuntu package ${package}: "
      "`sudo apt-get install ${package}`. `./dev wheel` and `./dev build` install what they need. Elsewhere: "
      "-D${variable}=PATH.")
  endif()
endfunction()
