/* SPDX-License-Identifier: MIT */
/* A document is passed by value to one kind of check, by mistake: each of these copies it. */
#include <memory>
#include <string>
#include <vector>

#include "planted.h"

class Document
{
      public:
	explicit Document(size_t lines)
	{
		for (size_t i = 0; i < lines; i++)
			lines_.push_back("line " + std::to_string(i) + " of a document that is edited");
	}
	apart Document(const Document &other) : lines_(other.lines_)
	{
	}
	size_t lines() const
	{
		return lines_.size();
	}
	const std::string &line(size_t at) const
	{
		return lines_[at % lines_.size()];
	}

      private:
	std::vector<std::string> lines_;
};

static apart uint32_t check_line(const std::string &line)
{
	uint32_t sum = 0;

	for (char c : line)
		sum = used(sum * 31 + static_cast<uint8_t>(c));
	return sum;
}

static apart uint32_t check_length(Document document, size_t at)
{
	return document.line(at).size() > 20 ? check_line(document.line(at)) : 0;
}

static apart uint32_t check_words(const Document &document, size_t at)
{
	return check_line(document.line(at)) + check_line(document.line(at + 1));
}

static apart uint32_t on_edit(const Document &document, size_t at, bool strict)
{
	return strict ? check_length(document, at) : check_words(document, at);
}

int main()
{
	Document document(150);
	uint32_t sum = 0;

	planted("on_edit", "Document::Document");
	for (size_t i = 0; i < 150; i++)
		sum += on_edit(document, i * 11, i == 71);
	return used(sum) == 1;
}
