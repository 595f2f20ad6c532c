# SPDX-License-Identifier: Apache-2.0
# Reads `objdump --disassemble --demangle --no-show-raw-insn` and prints, for each function in the
# namespace given as -v isa=avx512: instructions, stores of vector and mask registers to the stack
# (spills), loads of them from it, and the function's name, separated by tabs.
function flush() {
  if (name != "") print instructions "\t" spills "\t" reloads "\t" name
  name = ""
}
/^[0-9a-f]+ <.*>:$/ {
  flush()
  sub(/^[0-9a-f]+ </, "")
  sub(/>:$/, "")
  if (index($0, "vecdet::" isa "::") > 0) name = $0
  instructions = spills = reloads = 0
  next
}
name != "" && /^ +[0-9a-f]+:\t/ {
  if ($0 ~ /\t(nop|data16|xchg +%ax,%ax|cs nop)/) next  # padding
  ++instructions
  if ($0 ~ /\t(v?mov|kmov)[a-z0-9]* +%([xyz]mm|k)[0-9]+,[^,]*\(%r[bs]p\)/) ++spills
  if ($0 ~ /\t(v?mov|kmov)[a-z0-9]* +[^,]*\(%r[bs]p\),%([xyz]mm|k)[0-9]+/) ++reloads
}
END { flush() }
