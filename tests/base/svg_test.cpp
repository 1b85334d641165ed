// SPDX-License-Identifier: Apache-2.0
#include "weir/base/svg.hpp"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(Svg, WritesElementsWithTheirAttributesAndTips) {
  svg drawing("width=\"40\"");
  drawing.line(0, 1.5, 20, 3, "class=\"grid\"");
  drawing.rect(1, 2, 3, 4, "fill=\"red\"", "a < b");
  drawing.text(16, 27, "", "\"all\"");
  drawing.polyline({{1, 2}, {3.25, 4}}, "class=\"curve\"");
  drawing.add("<g/>\n");
  EXPECT_EQ(std::move(drawing).finish(),
            "<svg width=\"40\">\n"
            "<line x1=\"0\" y1=\"1.5\" x2=\"20\" y2=\"3\" class=\"grid\"/>\n"
            "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" fill=\"red\"><title>a &lt; "
            "b</title></rect>\n"
            "<text x=\"16\" y=\"27\">&quot;all&quot;</text>\n"
            "<polyline points=\"1,2 3.25,4 \" class=\"curve\"/>\n"
            "<g/>\n"
            "</svg>\n");
}

TEST(Svg, RoundsCoordinatesToTwoDecimals) {
  svg drawing("");
  drawing.line(-0.001, 100, 0.125001, 1.999, "");
  EXPECT_EQ(std::move(drawing).finish(),
            "<svg>\n<line x1=\"0\" y1=\"100\" x2=\"0.13\" y2=\"2\"/>\n</svg>\n");
}

}  // namespace
}  // namespace weir
