// SPDX-License-Identifier: Apache-2.0
/// @file
/// Builds a self-contained HTML page: no script, no link, no network.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::tools {

/// An HTML page that is built from top to bottom. It is light or dark like the reader's
/// system. Texts are escaped, except where a function takes HTML.
/// @threads{thread-compatible}
class html_page {
 public:
  /// Begins a page. `subtitle` is printed below the title.
  html_page(std::string_view title, std::string_view subtitle);

  /// Adds a row of figures.
  /// @param figures  Name and value of each; the name is printed below the value.
  void tiles(const std::vector<std::pair<std::string, std::string>>& figures);
  /// Adds a heading.
  void section(std::string_view heading);
  /// Adds a paragraph.
  /// @param css  Classes of the style sheet, such as "note" or "verdict".
  void paragraph(std::string_view text, std::string_view css = {});
  /// Adds a frame around a drawing or a table.
  /// @param html  HTML, which is not escaped.
  void figure(std::string_view html, std::string_view caption = {});
  /// Adds a table of names and values.
  void table(const std::vector<std::pair<std::string, std::string>>& rows);
  /// Adds a text with its line breaks, in a fixed-width font.
  void text(std::string_view text);
  /// Adds a text like `text`, which is hidden until the reader opens the summary.
  void folded(std::string_view summary, std::string_view text);
  /// Ends the page and returns it.
  [[nodiscard]] std::string finish() &&;

 private:
  std::string out_;
};

}  // namespace weir::tools
