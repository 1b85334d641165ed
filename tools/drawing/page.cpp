// SPDX-License-Identifier: Apache-2.0
/// @file
/// The style sheet of a report and the HTML of its elements.
///
/// The page is one file without references: style and drawings are part of it, so it can
/// be mailed or kept. All text from outside is escaped here and nowhere else.
#include "page.hpp"

#include <fmt/core.h>

#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

/// Colours are variables, with other values for dark screens. The names of the classes
/// are those that the drawings use.
constexpr std::string_view style = R"(
:root{--bg:#fbfbfa;--ink:#1d2126;--soft:#636b74;--rule:#e2e4e6;--card:#ffffff;
--idle:#eceef0;
--model:#0b6bcb;--gzip:#b3541e;--o0:#b4bac1;--o1:#98a0a9;--o2:#78828c;--o3:#545e69;
--busy:#3d8bd9;
--k0:#3b82c4;--k1:#e08e3c;--k2:#4f9d69;--k3:#c4574f;--k4:#8a6fc1;--k5:#3fa7a3;
--k6:#c76aa0;--k7:#a88b32;--k8:#9aa1a8}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--ink:#e4e7ea;--soft:#98a1aa;
--rule:#2b3036;--card:#1b1f23;
--idle:#23282d;--model:#5aa9f5;--gzip:#e8935c;--o0:#4b535b;--o1:#646d76;--o2:#87919b;
--o3:#aeb7c0;--busy:#4a94de;
--k0:#5b9bd8;--k1:#e5a05a;--k2:#67b380;--k3:#d8736b;--k4:#a48cd6;--k5:#58bab6;
--k6:#d685b5;--k7:#c1a54e;--k8:#727a82}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1040px;margin:0 auto;padding:36px 24px 64px}
h1{font-size:26px;margin:0;letter-spacing:-.01em}h2{font-size:18px;margin:40px 0 8px}
.sub{color:var(--soft);margin:2px 0 22px}p{margin:8px 0;max-width:80ch}
.note{color:var(--soft);font-size:13.5px}
.verdict{border-left:3px solid var(--model);padding:4px 14px;margin:14px 0;
max-width:92ch}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;
margin:18px 0}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:8px;
padding:12px 14px}
.tile b{display:block;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:12.5px}
figure{margin:12px 0;background:var(--card);border:1px solid var(--rule);
border-radius:8px;padding:14px;overflow-x:auto}
figcaption{color:var(--soft);font-size:13px;margin-top:6px}
svg{display:block;width:100%;height:auto}svg text{font:12px system-ui,sans-serif;
fill:var(--ink)}
svg .tick{fill:var(--soft);font-size:11.5px}svg .axis{stroke:var(--soft);stroke-width:1}
svg .grid{stroke:var(--rule);stroke-width:1}
.curve{fill:none;stroke-width:1.5;stroke-linejoin:round}
.curve.model{stroke:var(--model);stroke-width:2.4}
.curve.gzip{stroke:var(--gzip);stroke-dasharray:6 4}.curve.o0{stroke:var(--o0)}
.curve.o1{stroke:var(--o1)}.curve.o2{stroke:var(--o2)}.curve.o3{stroke:var(--o3)}
svg .label.model{fill:var(--model);font-weight:600}svg .label.gzip{fill:var(--gzip)}
svg .label.o0,svg .label.o1,svg .label.o2,svg .label.o3{fill:var(--soft)}
.idle{fill:var(--idle)}.busy{fill:var(--busy)}.bar{fill:var(--busy)}
.k0{fill:var(--k0)}.k1{fill:var(--k1)}.k2{fill:var(--k2)}.k3{fill:var(--k3)}
.k4{fill:var(--k4)}.k5{fill:var(--k5)}.k6{fill:var(--k6)}.k7{fill:var(--k7)}
.k8{fill:var(--k8)}
table{border-collapse:collapse;width:100%;font-size:13.5px}th{text-align:left;
font-weight:600;color:var(--soft)}
td,th{padding:4px 10px 4px 0;border-bottom:1px solid var(--rule);vertical-align:top;
overflow-wrap:anywhere}.n{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap}
svg.key{display:inline-block;width:10px;height:10px;margin-right:4px}
code,pre{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace}
pre{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:12px;
overflow-x:auto;white-space:pre-wrap}
summary{cursor:pointer;color:var(--soft);margin:8px 0}
)";

}  // namespace

/// Everything up to the first element. The title appears twice, in the window and on the
/// page.
html_page::html_page(std::string_view title, std::string_view subtitle)
    : out_(fmt::format(
          "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
          "<meta name=\"color-scheme\" content=\"light dark\"><title>{0}</title>"
          "<style>{1}</style></head>\n<body><main><h1>{0}</h1><p class=\"sub\">{2}</p>\n",
          xml_escape(title), style, xml_escape(subtitle))) {}

/// A tile has a large value and a small name below it.
void html_page::tiles(const std::vector<std::pair<std::string, std::string>>& figures) {
  out_ += "<div class=\"tiles\">";
  for (const auto& [name, value] : figures) {
    out_ += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>",
                        xml_escape(value), xml_escape(name));
  }
  out_ += "</div>\n";
}

void html_page::section(std::string_view heading) {
  out_ += fmt::format("<h2>{}</h2>\n", xml_escape(heading));
}

/// The class is chosen by the program and is not escaped.
void html_page::paragraph(std::string_view text, std::string_view css) {
  out_ += fmt::format("<p class=\"{}\">{}</p>\n", css, xml_escape(text));
}

/// The content is HTML that the program has made, such as a drawing.
void html_page::figure(std::string_view html, std::string_view caption) {
  out_ += fmt::format("<figure>{}", html);
  out_ += caption.empty() ? "</figure>\n"
                          : fmt::format("<figcaption>{}</figcaption></figure>\n",
                                        xml_escape(caption));
}

/// A table of two columns, in the frame of a figure.
void html_page::table(const std::vector<std::pair<std::string, std::string>>& rows) {
  out_ += "<figure><table>";
  for (const auto& [name, value] : rows) {
    out_ += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", xml_escape(name),
                        xml_escape(value));
  }
  out_ += "</table></figure>\n";
}

/// Preformatted text keeps its lines and spaces.
void html_page::text(std::string_view text) {
  out_ += fmt::format("<pre>{}</pre>\n", xml_escape(text));
}

/// Needs no script: browsers open and close it by themselves.
void html_page::folded(std::string_view summary, std::string_view text) {
  out_ += fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
                      xml_escape(summary), xml_escape(text));
}

/// Can be called once, since it moves the text out.
std::string html_page::finish() && {
  return std::move(out_) + "</main></body></html>\n";
}

}  // namespace weir::tools
