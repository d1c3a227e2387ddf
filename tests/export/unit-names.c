/* SPDX-License-Identifier: MIT */
/* lib/export/names.c, lib/base/fit.c: what is left of a name, and that different names stay different. */
#include "lib/base/fit.h"
#include "lib/export/names.h"
#include "tests/unit.h"

static void check_plain(const char *full, const char *want)
{
	char *got = names_shorten(full, NAMES_PLAIN);

	CHECK_STR(got, want);
	free(got);
}

static void test_plain(void)
{
	check_plain("main", "main");
	check_plain("acme::Book<int, std::allocator<int> >::add(double, acme::Order const&) const", "acme::Book::add");
	check_plain("std::vector<int>& acme::get<int>(int)", "acme::get");
	check_plain("submit(double)::{lambda(int)#1}::operator()(int) const", "submit::{lambda#1}::operator()");
	check_plain("(anonymous namespace)::helper(int)", "(anonymous namespace)::helper");
	check_plain("bool operator< <int>(A<int> const&, A<int> const&)", "operator<");
	check_plain("std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char)", "std::operator<<");
	check_plain("A::operator->() const", "A::operator->");
	check_plain("A::operator unsigned long() const", "A::operator unsigned long");
	check_plain("operator new[](unsigned long)", "operator new[]");
	check_plain("non-virtual thunk to A::f(int)", "non-virtual thunk to A::f");
	check_plain("std::to_string[abi:cxx11](int)", "std::to_string");
	check_plain("std::function<void (int)>::operator()(int) const", "std::function::operator()");
	check_plain("f(int) [clone .isra.0]", "f [clone .isra.0]");
	check_plain("core::ptr::drop_in_place::<alloc::string::String>", "core::ptr::drop_in_place");
	check_plain("<alloc::vec::Vec<u8> as core::ops::Drop>::drop", "<alloc::vec::Vec as core::ops::Drop>::drop");
	check_plain("core::ptr::<impl *const T>::offset", "core::ptr::<impl *const T>::offset");
	check_plain("hello::run::h0123456789abcdef", "hello::run");
	check_plain("[libc.so.6+0x1234]", "[libc.so.6+0x1234]");
	check_plain("main.(*T).Method", "main.(*T).Method");
	/* Names that are not closed, or have nothing else */
	check_plain("f(int", "f");
	check_plain("a<b<c", "a");
	check_plain("<", "<");
	/* Names that were too long for the store: "..." unless what is missing is left out. */
	check_plain("std::vector<int>::insert(std::pair<int...", "std::vector::insert");
	check_plain("std::vector<std::pair<int...", "std::vector...");
	check_plain("std::vector<std::pair<int...#01234567", "std::vector...#01234567");
	check_plain("acme::Engine::sub...", "acme::Engine::sub...");
	check_plain("(", "(");
	check_plain("operator", "operator");
	check_plain("f)", "f)");
}

static void test_different(void)
{
	static const char *const full[][2] = {
		{ "f", "f" },
		{ "g(int)", "g" },
		{ "h(int)", "h(int)" },
		{ "h(double, acme::Order<int> const&)", "h(double, Order const&)" },
		{ "i<int, std::allocator<int> >(int)", "i<int>" },
		{ "i<long, std::allocator<long> >(int)", "i<long>" },
		{ "j(a::X)", "j(a::X)" },
		{ "j(b::X)", "j(b::X)" },
		{ "l(acme::Order, std::vector<int>::iter...", "l(Order, iter..." },
		{ "l(acme::Order, std::vector<std::pair<int...", "l(Order, vector..." },
		{ "k", "k" },
		{ "k(int)", "k(int)" },
		{ "run::h0123456789abcdef", "run::h0123456789abcdef" },
		{ "run::h0123456789abcde0", "run::h0123456789abcde0" },
	};
	struct names *n = names_new(false), *whole = names_new(true);

	for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++) {
		names_add(n, full[i][0]);
		names_add(whole, full[i][0]);
	}
	CHECK_EQ(names_finish(n), 0);
	CHECK_EQ(names_finish(whole), 0);
	for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++) {
		CHECK_STR(names_short(n, full[i][0]), full[i][1]);
		CHECK_STR(names_short(whole, full[i][0]), full[i][0]);
	}
	CHECK_STR(names_short(n, "x(int)"), "x(int)");
	CHECK_STR(names_short(NULL, "x(int)"), "x(int)");
	names_free(n);
	names_free(whole);
}

static void test_fit(void)
{
	static const char *const alike[] = { "a_long_name_of_one",     "a_long_name_of_two",
					     "a_long_name_of_ten",     "a_long_name_of_one_and_more",
					     "a_long_nam\xe2\x80\xa6", "a_long_n#2" };
	struct fit f = { 0 }, ascii = { .ascii = true };
	char got[6][64];

	CHECK_STR(fit_text(&f, "short", 10), "short");
	CHECK_STR(fit_text(&f, "a_name_that_is_longer", 10), "a_name_th\xe2\x80\xa6");
	CHECK_STR(fit_text(&f, "a_name_that_is_longer", 10), "a_name_th\xe2\x80\xa6");
	CHECK_STR(fit_text(&f, "acme::trading::submit", 12), "\xe2\x80\xa6"
							     "ing::submit");
	CHECK_STR(fit_text(&f, "[ld-linux-aarch64.so.1+0x1234]", 16), "[ld-lin\xe2\x80\xa6+0x1234]");
	CHECK_STR(fit_text(&f, "\xe5\x87\xbd\xe6\x95\xb0\xe5\x87\xbd\xe6\x95\xb0\xe5\x87\xbd", 8),
		  "\xe5\x87\xbd\xe6\x95\xb0\xe5\x87\xbd\xe2\x80\xa6");
	CHECK_STR(fit_text(&ascii, "a_name_that_is_longer", 10), "a_name_...");
	CHECK_STR(fit_text(&f, "not limited at all", 0), "not limited at all");
	CHECK_EQ(fit_width("a\xe5\x87\xbd"
			   "e\xcc\x81"),
		 4);
	for (size_t i = 0; i < 6; i++) {
		snprintf(got[i], sizeof(got[i]), "%s", fit_text(&f, alike[i], 11));
		CHECK(fit_width(got[i]) <= 11);
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(got[i], got[k]) != 0);
	}
	fit_done(&f);
	fit_done(&ascii);
}

int main(void)
{
	test_plain();
	test_different();
	test_fit();
	return unit_end();
}
