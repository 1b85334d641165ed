// SPDX-License-Identifier: Apache-2.0
/// @file
/// The frame of a report: one HTML page that needs nothing but itself.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::tools {

/// Page with its style, light or dark as the reader's system is.
class html_page {
 public:
  html_page(std::string_view title, std::string_view subtitle);

  /// Figures in a row, each with a name below it.
  void tiles(const std::vector<std::pair<std::string, std::string>>& figures);
  void section(std::string_view heading);
  void paragraph(std::string_view text, std::string_view css = {});
  /// Ready HTML: a drawing or a table.
  void figure(std::string_view html, std::string_view caption = {});
  void table(const std::vector<std::pair<std::string, std::string>>& rows);
  /// Text as it is, line by line.
  void text(std::string_view text);
  /// Text as it is, folded away behind a summary.
  void folded(std::string_view summary, std::string_view text);
  [[nodiscard]] std::string finish() &&;

 private:
  std::string out_;
};

}  // namespace weir::tools
