/* SPDX-License-Identifier: MIT */
/* A formula of 30 levels divides by zero, and the exception passes through all of them. */
#include <stdexcept>
#include <vector>

#include "planted.h"

struct Node {
	uint32_t divisor;
	const Node *inner;
};

static apart uint32_t divide(uint32_t value, uint32_t divisor)
{
	if (!divisor)
		throw std::domain_error("division by zero");
	return used(value / divisor);
}

static apart uint32_t evaluate(const Node *node)
{
	if (!node->inner)
		return divide(1000, node->divisor);
	return divide(used(evaluate(node->inner)) + 100, node->divisor);
}

static apart uint32_t calculate(const std::vector<Node> &formula)
{
	try {
		return evaluate(&formula.back());
	} catch (const std::domain_error &) {
		return UINT32_MAX;
	}
}

int main()
{
	std::vector<Node> formula(30);
	uint32_t sum = 0;

	planted("calculate", "__cxa_throw");
	for (uint32_t i = 0; i < 150; i++) {
		for (uint32_t j = 0; j < 30; j++)
			formula[j] = { j + 1, j ? &formula[j - 1] : nullptr };
		if (i == 90)
			formula[0].divisor = 0;
		sum += calculate(formula);
	}
	return used(sum) == 1;
}
