# Makes lowdown's manual pages as people know them from others.
# Code in the text is bold, because a terminal has no other font for it.
{ gsub(/\\fC/, "\\fB") }

# Headings stand behind their macro, without an empty paragraph. Sections are in capitals, as man and apropos expect.
/^\.S[HS]$/ { heading = $0; next }
heading != "" {
  print heading " \"" (heading == ".SH" ? toupper($0) : $0) "\""
  heading = ""
  begins = 1
  next
}
begins { begins = 0; if ($0 == ".LP") next }

# A table of two columns is a list of terms, because the terms are often longer than half a line. The heads go.
/^\.TS$/ { row = 0; cell = 0; columns = 0; next }
columns == 0 && /^tab\(\|\) / { next }
columns == 0 && /^lb/ { columns = NF; next }
/^l [l ]*l\.$/ {
  if (columns > 2) print ".TS\ntab(|) allbox;\n" substr("lb lb lb lb lb", 1, 3 * columns - 1) "x\n" substr($0, 1, length($0) - 1) "x."
  next
}
columns == 2 && $0 == "T{" { row++; if (row > 1) print ".TP"; next }
columns == 2 && $0 == "T}|T{" { next }
columns == 2 && $0 == "T}" { next }
columns == 2 && /^\.TE$/ { columns = -1; next }
columns == 2 && row == 1 { next }
# groff leaves no line between a table and the text behind it.
/^\.TE$/ { columns = -1; print; print ".sp"; next }

# Examples are indented.
/^\.EX$/ { print ".RS 4" }
/^\.EE$/ { print; print ".RE"; next }
{ print }
