/* SPDX-License-Identifier: MIT */
/*
 * Demanglers. Names are hostile: a demangler reads no further than the end of the name, and time, memory and the size
 * of the result are bounded.
 */
#ifndef CSIGHT_CODE_DEMANGLE_H
#define CSIGHT_CODE_DEMANGLE_H

/*
 * Returns a readable form of a C++, Rust, D, OCaml or Go name, or a copy of any other name; long names are truncated.
 * NULL: no memory. The caller frees.
 */
char *demangle_symbol(const char *name);

/*
 * The demanglers of single languages return a string that the caller frees; NULL: the name is not of that language, or
 * malformed, or no memory.
 */

/* Rust: legacy names, _ZN…17h<hash>E, and v0 names (RFC 2603), _R…. Hashes are left out. */
char *demangle_rust(const char *name);

/* OCaml: camlModule__name_123 is Module.name. */
char *demangle_ocaml(const char *name);

/* D: _D4main3fooFiZv is main.foo. Template arguments are replaced by an ellipsis: writeln!(...). */
char *demangle_d(const char *name);

/* Go: undoes the escapes in the last part of a package's path: gopkg.in/yaml%2ev3.Marshal is gopkg.in/yaml.v3.Marshal.
 */
char *demangle_go(const char *name);

#endif
