/* SPDX-License-Identifier: MIT */
/* lib/code/demangle*.c: mangled names of all languages, and other strings. */
#include <string.h>

#include "lib/base/util.h"
#include "lib/code/demangle.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *name = malloc(size + 1), *readable = NULL;

	memcpy(name, data, size);
	name[size] = 0;
	/* C++ names are demangled by libstdc++, which is not fuzzed here. */
	if (strncmp(name, "_Z", 2) == 0 && strncmp(name, "_ZN", 3) != 0)
		return 0;
	readable = demangle_symbol(name);
	fuzz_require(readable && strlen(readable) < 500);
	return 0;
}

void fuzz_seeds(void)
{
	static const char *const seeds[] = {
		"_ZN43_$LT$r..Sq$LT$_$GT$$u20$as$u20$r..Shape$GT$4area17h70e00a474bd28ceeE",
		"_RNSNvYNCNvC1r4main0NtC1s3Any4name6vtableB8_",
		"_RINvC1r5generDG_INtC1s2FnTRL0_hEEp6OutputRL0_hNtC1s4SendEL_E",
		"_RINvC1r5generFG0_UKCRL1_hQL0_ThEERL1_eE",
		"_RINvC1r4flagKb1_Kc78_Ksn5_E",
		"_RNvC1ru9bcher_kva",
		"camlStdlib__$40_169",
		"gopkg.in/yaml%2ev3.(*parser).parse",
	};

	for (size_t i = 0; i < ELEMENTS(seeds); i++)
		fuzz_seed(seeds[i], strlen(seeds[i]));
}
