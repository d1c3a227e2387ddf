/* SPDX-License-Identifier: MIT */
/* lib/code/demangle*.c: names as compilers mangle them (Rust: RFC 2603), and malformed ones. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/code/demangle.h"
#include "tests/unit.h"

static const struct {
	const char *name, *readable;
} names[] = {
	/* C, and C++. */
	{ "main", "main" },
	{ "_Really", "_Really" },
	{ "", "" },
	{ "_ZN3foo3barEi", "foo::bar(int)" },
	{ "_ZN3foo17h0123456789abcdeXEv", "foo::h0123456789abcdeX()" },
	/* Unresolved names; of the malformed ones, libstdc++ would not end. */
	{ "_Z1fIiEN1SIXsrT_5ClassEE4TypeEv", "S<int::Class>::Type f<int>()" },
	{ "_ZN3src4callIJiEEEvDpT_", "void src::call<int>(int)" },
	{ "_Z4usrsDn", "usrs(decltype(nullptr))" },
	{ "_Z1fDTsriED", NULL },
	{ "_Z1fDTsri1zUD1E", NULL },
	{ "_Z1fDTsriixCd", NULL },
	/* Rust, legacy: the hash is removed, escapes are decoded. */
	{ "_ZN1r3gen17h59265a5d53328f36E", "r::gen" },
	{ "_ZN43_$LT$r..Sq$LT$_$GT$$u20$as$u20$r..Shape$GT$4area17h70e00a474bd28ceeE", "<r::Sq<_> as r::Shape>::area" },
	{ "_ZN1r4main17h9b517ce2c1f2d4f3E.llvm.1234567890", "r::main" },
	{ "_ZN1r13gr$uf6$$udf$e4name17h9b517ce2c1f2d4f3E", "r::gr\xc3\xb6\xc3\x9f"
							   "e::name" },
	/* Rust, v0: paths, namespaces, impls. */
	{ "_RNvCs6GmmlP4bgsG_1r4main", "r::main" },
	{ "_RNCNvCs6GmmlP4bgsG_1r4mains0_0B3_", "r::main::{closure#2}" },
	{ "_RNSNvYNCNvC1r4main0NtC1s3Any4name6vtableB8_", "<r::main::{closure#0} as s::Any>::name::{shim:vtable#0}" },
	{ "_RNvMC1rINtB2_2SqhE4area", "<r::Sq<u8>>::area" },
	{ "_RNvXC1rNtB2_2SqNtB2_5Shape4area", "<r::Sq as r::Shape>::area" },
	{ "_RNvCs_1r4main.cold", "r::main" },
	{ "_RNvNtCs_1ru8gre_6ka12ma", NULL },
	/* Types. */
	{ "_RINvCs6GmmlP4bgsG_1r3genhcEB2_", "r::gen::<u8, char>" },
	{ "_RINvCs_1r5generAQSaj3_EB2_", "r::gener::<[&mut [i8]; 3]>" },
	{ "_RINvC1r5generFEzE", "r::gener::<fn() -> !>" },
	{ "_RINvC1r5generFG0_UKCRL1_hQL0_ThEERL1_eE",
	  "r::gener::<for<'a, 'b> unsafe extern \"C\" fn(&'a u8, &'b mut (u8,)) -> &'a str>" },
	{ "_RINvC1r5generFK10C_unwinduEuE", NULL },
	{ "_RINvC1r5generFK8C_unwinduEuE", "r::gener::<extern \"C-unwind\" fn(())>" },
	{ "_RINvC1r5generDNtC1s4SendEL_E", "r::gener::<dyn s::Send>" },
	{ "_RINvC1r5generDG_INtC1s2FnTRL0_hEEp6OutputRL0_hNtC1s4SendEL_E",
	  "r::gener::<dyn for<'a> s::Fn<(&'a u8,), Output = &'a u8> + s::Send>" },
	{ "_RINvC1r5generTPmOtEE", "r::gener::<(*const u32, *mut u16)>" },
	/* Constants. */
	{ "_RINvC1r4flagKb1_Kc78_Ksn5_E", "r::flag::<true, 'x', -5>" },
	{ "_RINvC1r4flagKb0_Kce9_Ks12c_E", "r::flag::<false, '\xc3\xa9', 300>" },
	{ "_RINvC1r4flagKo0123456789abcdef01234_KpE", "r::flag::<0x0123456789abcdef01234, _>" },
	{ "_RINvC1r4flagKnn80000000000000000000000000000000_E", "r::flag::<-0x80000000000000000000000000000000>" },
	/* Punycode: bcher-kva is buecher with its umlaut; a name without ASCII (RFC 3492, 7.1, B). */
	{ "_RNvC1ru9bcher_kva", "r::b\xc3\xbc"
				"cher" },
	{ "_RNvC1ru24ihqwcrb4cv8a8dqg056pqjye", "r::"
						"\xe4\xbb\x96\xe4\xbb\xac\xe4\xb8\xba\xe4\xbb\x80\xe4\xb9\x88\xe4\xb8"
						"\x8d\xe8\xaf\xb4\xe4\xb8\xad\xe6\x96\x87" },
	/* Malformed names are returned as they are. */
	{ "_R", NULL },
	{ "_RNvC1r", NULL },
	{ "_RNvC1r9999999999x", NULL },
	{ "_RB_", NULL },
	{ "_RNvB_1a", NULL },
	{ "_RINvC1r1aRL9_hE", NULL },
	{ "_RNvC1r4mainX", NULL },
	/* OCaml. */
	{ "camlStdlib__List__map_487", "Stdlib.List.map" },
	{ "camlDune__exe__Main__fun_1234", "Dune.exe.Main.fun_1234" },
	{ "camlStdlib__$40_169", "Stdlib.@" },
	{ "camlMain__entry", "Main.entry" },
	{ "camlFoo.bar_12", "Foo.bar" },
	{ "caml_alloc_small", "caml_alloc_small" },
	{ "camlStdlib", "camlStdlib" },
	{ "camlX__", "camlX__" },
	/* D: enclosing functions, templates of both forms, back references to names and types. */
	{ "_Dmain", "D main" },
	{ "_D4test3fooFiZv", "test.foo" },
	{ "_D4test3fooFiZ3barMFZv", "test.foo.bar" },
	{ "_D4test1C6__ctorMFiZC4test1C", "test.C.this" },
	{ "_D4test1C6__dtorMFZv", "test.C.~this" },
	{ "_D3std5stdio__T7writelnTAyaZQnFNfQjZv", "std.stdio.writeln!(...).writeln" },
	{ "_D3std5stdio16__T7writelnTAyaZ7writelnFNfAyaZv", "std.stdio.writeln!(...).writeln" },
	{ "_D8demangle__T4testVG3uA3i1i2i4Z1xi", "demangle.test!(...).x" },
	{ "_D8demangle__T3fooS4test1xZ3barFZv", "demangle.foo!(...).bar" },
	{ "_D6object14TypeInfo_Array8argTypesMFNbNfJC8TypeInfoJQlZi", "object.TypeInfo_Array.argTypes" },
	{ "_D8demangle4testFDFNaZaHAbG42PxaZv", "demangle.test" },
	{ "_D4core4stdc5errnoQgFNbNiNeZi.part.0", "core.stdc.errno.errno" },
	{ "_D", NULL },
	{ "_D8me;Y4__TQeYc3_ZYQes", NULL },
	{ "_D4te", NULL },
	{ "_D4testM", NULL },
	{ "_D4testQz", NULL },
	{ "_D15__T7writelnTAyaZ7writelnFNfAyaZv", NULL },
	{ "_D5testexx1y", NULL },
	{ "_D99999999999999999999999a", NULL },
	/* Go. */
	{ "main.(*server).run", "main.(*server).run" },
	{ "gopkg.in/yaml%2ev3.(*parser).parse", "gopkg.in/yaml.v3.(*parser).parse" },
	{ "100%2e", "100%2e" },
};

/* Each FS1a could be the type of an enclosing function, and is not: the parser backtracks, and gives up. */
static void test_backtracking(void)
{
	char name[1500] = "_D1a";
	_cleanup_free_ char *made = NULL;

	for (size_t n = 4; n + 4 < sizeof(name); n += 4)
		memcpy(name + n, "FS1a", 4);
	made = demangle_symbol(name);
	CHECK(made && made[0] == '_');
}

static void test_table(void)
{
	for (size_t i = 0; i < ELEMENTS(names); i++) {
		_cleanup_free_ char *name = demangle_symbol(names[i].name);

		CHECK_STR(name, names[i].readable ? names[i].readable : names[i].name);
	}
}

/* Each tuple is twice as long as the previous one: unbounded, the result would exhaust memory. */
static void test_growth(void)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	_cleanup_free_ char *readable = NULL;
	char name[1024] = "_RINvC1r1aThhE";
	size_t n = strlen(name), begin = n - 4;

	for (int i = 0; i < 40; i++) {
		/* Back references count from after _R, in base 62. */
		size_t back = begin - 2;
		char text[8];

		begin = n;
		if (back <= 62)
			snprintf(text, sizeof(text), "B%c_", digits[back - 1]);
		else
			snprintf(text, sizeof(text), "B%c%c_", digits[(back - 1) / 62], digits[(back - 1) % 62]);
		n += (size_t)snprintf(name + n, sizeof(name) - n, "T%s%sE", text, text);
	}
	strcpy(name + n, "E");
	readable = demangle_symbol(name);
	CHECK(readable && strlen(readable) < 2020 &&
	      strncmp(readable, "r::a::<(u8, u8), ((u8, u8), (u8, u8)), (((u8", 44) == 0);
}

/*
 * The same in C++: each parameter is a template of the previous one, twice. The mark of a cut name, the CRC-32 of the
 * mangled one, is the same in each process.
 */
static void test_growth_cpp(void)
{
	_cleanup_free_ char *readable = NULL;
	char name[1024] = "_Z1f1AIiiE";

	for (int i = 0; i < 36; i++) {
		char digit = (char)(i < 10 ? '0' + i : 'A' + i - 10);

		sprintf(name + strlen(name), "S_IS%c_S%c_E", digit, digit);
	}
	readable = demangle_symbol(name);
	CHECK(readable && strlen(readable) < 2020 &&
	      strncmp(readable, "f(A<int, int>, A<A<int, int>, A<int, int> >, A<A<A<int", 54) == 0);
	CHECK_STR(readable + strlen(readable) - 12, "...#f860a3b9");
}

/* A pack expansion of such types, none of which is a pack, would be searched for ever before there is any text. */
static void test_search_cpp(void)
{
	_cleanup_free_ char *readable = NULL;
	char name[1024] = "_Z1fIiEvDp1BI1AIiiE";

	for (int i = 2; i < 36; i++) {
		char digit = (char)(i < 10 ? '0' + i : 'A' + i - 10);

		sprintf(name + strlen(name), "S1_IS%c_S%c_E", digit, digit);
	}
	strcat(name, "E");
	readable = demangle_symbol(name);
	CHECK_STR(readable, name);
}

static void test_nesting(void)
{
	char name[2048] = "_RINvC1r1a";
	_cleanup_free_ char *readable = NULL;

	memset(name + strlen(name), 'R', 1900);
	readable = demangle_symbol(name);
	CHECK(readable && strlen(readable) < 2020);
}

/* Names truncated, or with one character replaced, get a result. */
static void test_garbled(void)
{
	size_t answers = 0, asked = 0;

	for (size_t i = 0; i < ELEMENTS(names); i++) {
		char text[256];
		size_t size = strlen(names[i].name);

		for (size_t cut = 0; cut < size; cut++)
			for (int how = 0; how < 64; how++) {
				_cleanup_free_ char *readable = NULL;

				memcpy(text, names[i].name, size + 1);
				text[cut] = (char)(how ? "\xff_09azAZRCNIKLTBEuspGDFQO$.%MXYJ+n"[how % 34] : 0);
				readable = demangle_symbol(text);
				answers += readable != NULL;
				asked++;
			}
	}
	CHECK_EQ(answers, asked);
}

int main(void)
{
	test_table();
	test_backtracking();
	test_growth();
	test_growth_cpp();
	test_search_cpp();
	test_nesting();
	test_garbled();
	return unit_end();
}
