/* SPDX-License-Identifier: MIT */
/* Widgets are drawn by virtual methods. One window has a chart. */
#include <memory>
#include <vector>

#include "planted.h"

namespace ui
{

class Surface
{
      public:
	apart void line(int x, int y, int to_x, int to_y)
	{
		pixels += compute(x ^ y, 10) + static_cast<uint32_t>(to_x ^ to_y);
	}
	uint32_t pixels = 0;
};

class Widget
{
      public:
	virtual ~Widget() = default;
	virtual void draw(Surface &surface) const = 0;
};

class Label : public Widget
{
      public:
	explicit Label(int letters) : letters_(letters)
	{
	}
	apart void draw(Surface &surface) const override
	{
		for (int i = 0; i < letters_; i++)
			surface.line(i, 0, i, 8);
	}

      private:
	int letters_;
};

class Button : public Label
{
      public:
	using Label::Label;
	apart void draw(Surface &surface) const override
	{
		for (int side = 0; side < 4; side++)
			surface.line(side, side, 10, 10);
		Label::draw(surface);
	}
};

class Chart : public Widget
{
      public:
	explicit Chart(std::vector<int> values) : values_(std::move(values))
	{
	}
	apart void draw(Surface &surface) const override
	{
		for (size_t i = 1; i < values_.size(); i++)
			surface.line(static_cast<int>(i) - 1, values_[i - 1], static_cast<int>(i), values_[i]);
	}

      private:
	std::vector<int> values_;
};

using Window = std::vector<std::unique_ptr<Widget>>;

apart void paint(const Window &window, Surface &surface)
{
	for (const auto &widget : window)
		widget->draw(surface);
}

} // namespace ui

int main()
{
	std::vector<ui::Window> windows(100);
	ui::Surface surface;

	planted("ui::paint", "ui::Chart::draw");
	for (size_t i = 0; i < windows.size(); i++) {
		for (int j = 0; j < 2 + static_cast<int>(i % 3); j++) {
			windows[i].push_back(std::make_unique<ui::Label>(3 + j));
			windows[i].push_back(std::make_unique<ui::Button>(4));
		}
		if (i == 64)
			windows[i].insert(windows[i].begin() + 1,
					  std::make_unique<ui::Chart>(std::vector<int>(400, 7)));
	}
	for (const auto &window : windows)
		ui::paint(window, surface);
	return used(surface.pixels) == 1;
}
