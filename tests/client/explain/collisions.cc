/* SPDX-License-Identifier: MIT */
/* The hash of a name is the sum of its letters: names of the same letters share a bucket. */
#include <string>
#include <unordered_map>
#include <vector>

#include "planted.h"

struct SumOfLetters {
	apart size_t operator()(const std::string &name) const
	{
		size_t sum = 0;

		for (char c : name)
			sum = sum + static_cast<uint8_t>(c) * 131;
		return sum;
	}
};

struct SameName {
	apart bool operator()(const std::string &a, const std::string &b) const
	{
		return a == b;
	}
};

class SymbolTable
{
      public:
	apart uint32_t resolve(const std::string &name) const
	{
		auto found = symbols_.find(name);

		return found == symbols_.end() ? 0 : found->second;
	}
	void define(const std::string &name, uint32_t address)
	{
		symbols_[name] = address;
	}

      private:
	std::unordered_map<std::string, uint32_t, SumOfLetters, SameName> symbols_;
};

int main()
{
	std::vector<std::string> names;
	std::string letters = "abcdef";
	SymbolTable table;
	uint32_t sum = 0;

	planted("SymbolTable::resolve", "SameName::operator()");
	for (uint32_t i = 0; i < 200; i++)
		names.push_back("symbol" + std::string(1 + i % 50, static_cast<char>('A' + i / 50)));
	for (size_t i = 0; i < names.size(); i++)
		table.define(names[i], static_cast<uint32_t>(i));
	for (uint32_t i = 0; i < 150; i++) {
		for (uint32_t j = 0; j <= i; j++)
			std::swap(letters[j % 5], letters[(j * 7 + 3) % 6]);
		table.define("local." + letters + letters, i);
	}
	for (size_t i = 0; i < names.size(); i++)
		sum += table.resolve(i == 133 ? "local.fedcbafedcba" : names[i]);
	return used(sum) == 1;
}
