/* SPDX-License-Identifier: MIT */
/* Results are sorted by score. Where scores are equal their titles decide, in lower case, which is made each time. */
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "planted.h"

struct Result {
	std::string title;
	uint32_t score;
};

static apart std::string fold_case(const std::string &text)
{
	std::string folded;

	for (char c : text)
		folded.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
	return folded;
}

static apart void order_results(std::vector<Result> &results)
{
	std::sort(results.begin(), results.end(), [](const Result &a, const Result &b) {
		if (a.score != b.score)
			return a.score > b.score;
		return fold_case(a.title) < fold_case(b.title);
	});
}

int main()
{
	uint32_t random = 7;

	planted("order_results", "fold_case");
	for (uint32_t i = 0; i < 80; i++) {
		std::vector<Result> results;

		for (uint32_t j = 0; j < 24; j++) {
			random = random * 1664525 + 1013904223;
			uint32_t score = i == 41 ? 5 : (random >> 16) * 32 + j;
			results.push_back({ "Chapter " + std::to_string(random >> 20) + " Of This Book", score });
		}
		order_results(results);
	}
	return 0;
}
