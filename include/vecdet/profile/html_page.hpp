// SPDX-License-Identifier: Apache-2.0
// The fixed parts of the HTML report: its frame and its style. It is dark or light like the
// reader's system, unless the reader switches it with the button.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

inline constexpr char html_head[] = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>vecdet profile</title><link rel="icon" href="data:,"><style>)html";

inline constexpr char html_style[] = R"html(
:root{--bg:#f6f7f9;--panel:#fff;--ink:#1a1f27;--soft:#5c6675;--faint:#8b95a3;--line:#e1e5ea;
--accent:#1f6feb;--bar:#3b82f6;--bar2:#bfd7fd;--warm:#d9730d;--good:#15803d;--bad:#c2261c;
--memory:#3b82f6;--cache:#0d9488;--compute:#c2410c;--hover:#f0f4fa;color-scheme:light}
:root[data-theme=dark]{--bg:#0e1217;--panel:#161b22;--ink:#e6e9ee;--soft:#9aa5b3;--faint:#6d7886;
--line:#272e38;--accent:#6ea8fe;--bar:#4c8df5;--bar2:#24446f;--warm:#f0a04b;--good:#4ade80;
--bad:#f87171;--memory:#5b9bff;--cache:#2dd4bf;--compute:#fb923c;--hover:#1d2530;color-scheme:dark}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main{max-width:1360px;margin:0 auto;padding:28px 24px 64px}
header{display:flex;align-items:flex-start;gap:24px;margin-bottom:20px}
header>div{flex:1;min-width:0}
h1{font-size:24px;line-height:1.25;margin:0 0 4px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:16px;margin:0 0 2px}
p{margin:0}.soft{color:var(--soft)}.small{font-size:12.5px}
.num,td.n,th.n{font-variant-numeric:tabular-nums}
button,input,select{font:inherit;color:inherit;background:var(--panel);border:1px solid var(--line);
border-radius:7px;padding:5px 11px}
button{cursor:pointer}button:hover{border-color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-bottom:16px}
.card,section{background:var(--panel);border:1px solid var(--line);border-radius:11px}
.card{padding:12px 16px}.card b{display:block;font-size:21px;line-height:1.3;font-weight:650;
letter-spacing:-.01em;white-space:nowrap}.card span{font-size:12.5px;color:var(--soft)}
section{padding:18px 20px 20px;margin-bottom:16px;min-width:0}
section>p.soft{margin-bottom:14px}
.two{display:grid;grid-template-columns:1fr 1fr;gap:16px}
.two>section{margin-bottom:16px}
@media(max-width:900px){.two{grid-template-columns:1fr;gap:0}}
.bars{display:grid;gap:5px}
.bar{display:grid;grid-template-columns:minmax(0,5fr) minmax(0,6fr) 62px 74px;gap:12px;
align-items:center;padding:3px 6px;border-radius:6px;cursor:pointer}
.bar:hover,.bar.on{background:var(--hover)}
.name{overflow-wrap:anywhere}
.bar .track{height:14px;border-radius:4px;position:relative}
.bar .fill{position:absolute;inset:0 auto 0 0;background:var(--bar);border-radius:4px;min-width:2px}
.bar .all{background:var(--bar2)}
.bar .v,.delta .v{text-align:right;white-space:nowrap}
.bar.rest{cursor:default;color:var(--soft)}.bar.rest .fill{background:var(--faint)}
.name i{font-style:normal;color:var(--soft)}
svg{display:block;width:100%;height:auto;overflow:visible}
svg text{fill:var(--soft);font-size:11.5px}svg .axis{stroke:var(--line)}
svg .roof{fill:none;stroke-width:1.8}svg .dot{cursor:pointer;fill-opacity:.62;stroke-width:1.4}
svg .many .dot{fill-opacity:.4;stroke-width:0}
svg .dot.on{fill-opacity:1;stroke:var(--ink);stroke-width:2}
.flame{position:relative;overflow:hidden}
.flame div{position:absolute;height:22px;border-radius:4px;overflow:hidden;white-space:nowrap;
padding:0 6px;font-size:12px;line-height:22px;color:#10233f;cursor:pointer;
border:1px solid var(--panel);text-overflow:ellipsis}
.flame div:hover{filter:brightness(1.08)}
.flame .thin{padding:0;border-width:1px 0}.flame .rest{background:var(--line);color:var(--soft);cursor:default}
.head{display:flex;justify-content:space-between;gap:12px}.head select{padding:2px 8px;font-size:12.5px}
.dotmark{display:inline-block;width:8px;height:8px;border-radius:99px;margin-right:5px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th,td{padding:6px 8px;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
td.n,th.n{text-align:right}
th{font-weight:600;color:var(--soft);font-size:12.5px;cursor:pointer;user-select:none}
th[aria-sort]{color:var(--ink)}th[aria-sort=descending]:after{content:" \2193"}
th[aria-sort=ascending]:after{content:" \2191"}
td.name{width:99%;min-width:180px;white-space:normal}
tbody tr{cursor:pointer}tbody tr:hover,tbody tr.on{background:var(--hover)}
.tools{display:flex;gap:10px;align-items:center;margin-bottom:8px;flex-wrap:wrap}
.tools input{flex:1;min-width:180px;max-width:380px}
.tag{display:inline-block;border-radius:99px;padding:0 8px;font-size:11.5px;line-height:18px;
border:1px solid var(--line);color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:8px 16px;margin:12px 0 4px}
.facts div{min-width:0}.facts b{display:block;font-weight:600}.facts span{font-size:12px;color:var(--soft)}
.key{display:flex;gap:16px;flex-wrap:wrap;font-size:12.5px;color:var(--soft);margin-top:6px}
.key i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px}
.good{color:var(--good)}.bad{color:var(--bad)}
.note{border-left:3px solid var(--warm);padding:6px 12px;margin-bottom:14px;background:var(--panel)}
#tip{position:fixed;pointer-events:none;background:var(--ink);color:var(--bg);border-radius:7px;
padding:6px 10px;font-size:12.5px;max-width:420px;display:none;z-index:9;overflow-wrap:anywhere}
.delta{display:grid;grid-template-columns:minmax(0,5fr) minmax(0,4fr) 76px 76px 84px 56px;gap:12px;
align-items:center;padding:3px 6px}
.delta .track{height:14px;position:relative;border-left:1px solid transparent}
.delta .zero{position:absolute;left:50%;top:-3px;bottom:-3px;border-left:1px solid var(--faint)}
.delta .fill{position:absolute;top:0;bottom:0;min-width:2px}
@media(max-width:640px){.bar{grid-template-columns:minmax(0,1fr) 62px 74px}
.delta{grid-template-columns:minmax(0,1fr) 56px 56px 64px 48px}
.bar>.name,.delta>:first-child{grid-column:1/-1}}
@media print{button,.tools{display:none}section,.card{break-inside:avoid}}
)html";

inline constexpr char html_body[] = R"html(
<main><header><div><h1 id="title"></h1><p class="soft" id="subtitle"></p></div>
<button id="theme" type="button">Dark</button></header>
<div id="notes"></div>
<div class="cards" id="cards"></div>
<section id="change" hidden></section>
<section><div class="head"><h2>Where the time goes</h2>
<select id="group" aria-label="Group by"><option value="">by problem</option><option value="function">by function</option></select></div>
<p class="soft">Share of self time. Click a problem for its details.</p>
<div class="bars" id="bars"></div></section>
<div class="two">
<section><h2>Roofline</h2><p class="soft" id="roofline-note"></p><div id="roofline"></div></section>
<section><h2 id="detail-title">Problem</h2><div id="detail"></div></section>
</div>
<section id="flame-section"><h2>Nesting</h2>
<p class="soft">Width is time with everything inside; click to zoom.</p><div class="flame" id="flame"></div></section>
<section><h2>All problems</h2>
<div class="tools"><input id="filter" type="search" placeholder="Filter by name" aria-label="Filter by name">
<span class="soft small" id="shown"></span></div>
<div class="scroll"><table id="table"></table></div></section>
<section><h2>Processes</h2><div class="scroll"><table id="processes"></table></div></section>
</main><div id="tip"></div>)html";

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
