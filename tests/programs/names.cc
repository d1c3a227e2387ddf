// SPDX-License-Identifier: MIT
// Names as C++ programs have them: templates, overloads, lambdas, anonymous namespaces, long scopes.
#include <functional>
#include <map>
#include <string>
#include <vector>

#define APART __attribute__((noinline, noclone))

namespace acme::trading::matching
{

struct Order {
	int id;
	double price;
};

template <typename Key, typename Policy> class OrderBook
{
      public:
	APART void add(Key key, Order const &order)
	{
		orders[key].push_back(order);
	}
	APART void add(Key key, double price)
	{
		add(key, Order{ int(key), price });
	}
	APART size_t size() const
	{
		return orders.size();
	}

      private:
	std::map<Key, std::vector<Order>> orders;
};

struct Fifo {
};
struct ProRata {
};

namespace
{
APART int normalise(int value)
{
	return value * 3 + 1;
}
} // namespace

APART int apply(std::function<int(int)> const &f, int value)
{
	return f(value);
}

APART int submit(double price, Order order)
{
	auto round = [](int value) APART { return value / 2; };
	auto check = [price](int value) APART { return value + int(price); };
	return round(normalise(order.id)) + check(order.id) + apply(round, 3) + apply(check, 4);
}
APART int submit(int price)
{
	return submit(double(price), Order{ price, 1.0 });
}

APART bool operator<(Order const &a, Order const &b)
{
	return a.price < b.price;
}

} // namespace acme::trading::matching

using namespace acme::trading::matching;

int main(int argc, char **argv)
{
	OrderBook<int, Fifo> first;
	OrderBook<long, ProRata> second;
	int n = argc > 1 ? std::stoi(argv[1]) : 20, sum = 0;

	for (int i = 0; i < n; i++) {
		first.add(i % 5, 1.5 * i);
		second.add(i % 7, Order{ i, 2.5 });
		second.add(i % 7, 3.5 * i);
		sum += submit(i) + submit(0.5, Order{ i, 0.5 }) + (Order{ i, 1 } < Order{ 1, 2.0 });
	}
	return (first.size() + second.size() + sum) > 3 ? 0 : 1;
}
