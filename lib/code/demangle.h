/*
 * Names of other languages than C++, made readable. Each returns what the caller frees, or NULL where the name is not
 * of that language, or broken; they read no further than the name, and write no more than is shown of one.
 */
#ifndef CSIGHT_CODE_DEMANGLE_H
#define CSIGHT_CODE_DEMANGLE_H

/*
 * Returns a readable form of a C++, Rust, D, OCaml or Go name, or a copy of any other name; long names are truncated.
 * NULL: no memory. The caller frees.
 */
char *demangle_symbol(const char *name);

/* Both of rustc's forms: _ZN…17h<hash>E, and v0 (RFC 2603), _R…. Hashes are left out. */
char *demangle_rust(const char *name);

/* camlModule__name_123: Module.name. */
char *demangle_ocaml(const char *name);

/* _D4main3fooFiZv: main.foo. Arguments of templates are left out: writeln!(...). */
char *demangle_d(const char *name);

/* Go escapes points in the last part of a package's path, as in gopkg.in/yaml%2ev3.Marshal. */
char *demangle_go(const char *name);

#endif
