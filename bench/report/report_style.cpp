#include "report/report_style.h"

namespace mobicuda::bench::report {

const char* const kReportStyle = R"(
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --soft: #57606a; --rule: #d5dae0; --tint: #f3f5f7;
  --hot: #fff3d6; --good: #116b33; --bad: #b3261e;
  --c0: #2464b4; --c1: #b4540a; --c2: #1a7f5a; --c3: #8a3ea8; --c4: #7a6a00; --c5: #b0306a;
  --c6: #0e7490; --c7: #6b7280; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --ink: #e3e7eb; --soft: #9aa5b1; --rule: #363d45; --tint: #1e2328; --hot: #3a3013;
    --good: #5fd38d; --bad: #ff8a80;
    --c0: #6aa9f4; --c1: #f0a35a; --c2: #5ccf9f; --c3: #cf93e6; --c4: #d8c64a; --c5: #f08ab8;
    --c6: #57c7dc; --c7: #a8b0bb; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 20px 16px 60px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 24px; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 36px 0 8px; padding-top: 12px; border-top: 1px solid var(--rule); }
h3, h4 { font-size: 15px; margin: 18px 0 4px; }
p { margin: 4px 0 10px; color: var(--soft); max-width: 75ch; }
p.warning { color: var(--ink); background: var(--hot); padding: 6px 10px; border-radius: 4px; }
.scroll { overflow-x: auto; margin: 6px 0 14px; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule);
  overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; background: var(--tint); }
.wide th, .wide td { padding: 4px 6px; } .wide th, .wide td:last-child { white-space: normal; }
.l { text-align: left; }
td.l { white-space: normal; max-width: 44ch; overflow-wrap: break-word; }
td.l:first-child { min-width: 20ch; }
td.l:nth-child(2) { min-width: 17ch; }
tr.hot td { background: var(--hot); }
tr.missed td { background: var(--hot); }
tr.missed td:last-child { color: var(--bad); font-weight: 600; }
tr.better td:last-child { color: var(--good); font-weight: 600; }
tr.worse td:last-child { color: var(--bad); font-weight: 600; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 12px 28px; }
.charts > * { min-width: 0; }
figure { margin: 6px 0; min-width: 0; }
figcaption { font-weight: 600; font-size: 14px; margin-bottom: 4px; }
svg { display: block; width: 100%; max-width: 560px; height: auto; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
svg .strong { fill: var(--ink); font-weight: 600; paint-order: stroke; stroke: var(--page); stroke-width: 3px; }
.start { text-anchor: start; } .mid { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: var(--rule); stroke-width: 0.6; } .axis { stroke: var(--soft); }
.mark { stroke: var(--ink); stroke-dasharray: 4 3; }
.roof { fill: none; stroke: var(--ink); stroke-width: 1.5; }
.curve { stroke-width: 2; } svg .curve { fill: none; } .dashed { stroke-dasharray: 6 4; }
.leader { stroke: var(--ink); stroke-width: 0.7; }
.s0 { fill: var(--c0); stroke: var(--c0); } .s1 { fill: var(--c1); stroke: var(--c1); }
.s2 { fill: var(--c2); stroke: var(--c2); } .s3 { fill: var(--c3); stroke: var(--c3); }
.s4 { fill: var(--c4); stroke: var(--c4); } .s5 { fill: var(--c5); stroke: var(--c5); }
.s6 { fill: var(--c6); stroke: var(--c6); } .s7 { fill: var(--c7); stroke: var(--c7); }
rect.s0, rect.s1, rect.s2, rect.s3, rect.s4, rect.s5, rect.s6, rect.s7 { stroke: none; }
.dot { fill-opacity: 0.45; }
.legend { list-style: none; margin: 2px 0 8px; padding: 0; display: flex; flex-wrap: wrap;
  gap: 2px 16px; font-size: 13px; }
.legend svg { display: inline-block; width: 12px; height: 12px; margin-right: 6px; }
details { border: 1px solid var(--rule); border-radius: 6px; padding: 6px 12px; margin: 8px 0; }
summary { cursor: pointer; font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 6px 0; font-size: 14px; }
dt { color: var(--soft); } dd { margin: 0; min-width: 0; }
code { font: 13px ui-monospace, monospace; }
@media print { details > * { display: block; } }
)";

const char* const kPictureStyle = R"(
:root { --page: #fff; --ink: #1b1f24; --soft: #57606a; --rule: #d5dae0;
  --c0: #2464b4; --c1: #b4540a; --c2: #1a7f5a; --c3: #8a3ea8; --c4: #7a6a00; --c5: #b0306a;
  --c6: #0e7490; --c7: #6b7280; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --ink: #e3e7eb; --soft: #9aa5b1; --rule: #363d45;
    --c0: #6aa9f4; --c1: #f0a35a; --c2: #5ccf9f; --c3: #cf93e6; --c4: #d8c64a; --c5: #f08ab8;
    --c6: #57c7dc; --c7: #a8b0bb; } }
.paper { fill: var(--page); }
text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.title { fill: var(--ink); font-size: 14px; font-weight: 600; }
.start { text-anchor: start; } .mid { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: var(--rule); stroke-width: 0.6; } .axis { stroke: var(--soft); }
.s0 { fill: var(--c0); stroke: var(--c0); } .s1 { fill: var(--c1); stroke: var(--c1); }
.s2 { fill: var(--c2); stroke: var(--c2); } .s3 { fill: var(--c3); stroke: var(--c3); }
.s4 { fill: var(--c4); stroke: var(--c4); } .s5 { fill: var(--c5); stroke: var(--c5); }
.s6 { fill: var(--c6); stroke: var(--c6); } .s7 { fill: var(--c7); stroke: var(--c7); }
.curve { fill: none; stroke-width: 2; } .dashed { stroke-dasharray: 6 4; }
)";

}  // namespace mobicuda::bench::report
