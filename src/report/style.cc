#include "report/page.h"

// The page's style. Series colours keep apart for the colour-blind, in light and in dark.
namespace fovea::report {

const char* const kPageStyle = R"css(
:root{--paper:#fff;--card:#f6f7f9;--ink:#1c2129;--muted:#626b7a;--rule:#dfe3e9;--accent:#1c5fa7;
--s0:#0b6bb0;--s1:#c8550a;--s2:#0a8a66;--s3:#b0478a;--s4:#b98300;--s5:#3d9bd8;--s6:#6d5bb5;
--s7:#5b6470}
@media screen and (prefers-color-scheme:dark){:root{--paper:#14171c;--card:#1c2028;--ink:#e6e8ec;
--muted:#9aa2b0;--rule:#313742;--accent:#7db8ee;--s0:#5aa9e6;--s1:#f08a4b;--s2:#3fc79a;
--s3:#e38cc0;--s4:#e3b53d;--s5:#9ad4f5;--s6:#b0a1f0;--s7:#a9b1bd}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans","Liberation Sans",sans-serif}
main{max-width:54rem;margin:0 auto;padding:3rem 1.5rem 1rem}
h1{font-size:2rem;line-height:1.2;letter-spacing:-.015em;margin:0;text-wrap:balance}
h2{font-size:1.25rem;letter-spacing:-.005em;margin:0 0 .75rem;scroll-margin-top:1rem}
section{margin-top:2.75rem;padding-top:1.5rem;border-top:1px solid var(--rule)}
p{max-width:46rem;margin:.75rem 0;text-wrap:pretty}
.sub{color:var(--muted);font-size:1.075rem;margin:.5rem 0 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;
margin:1.75rem 0 0}
.cards div{background:var(--card);border-radius:.6rem;padding:.85rem 1rem}
.cards dt{color:var(--muted);font-size:.85rem}
.cards dd{margin:.1rem 0 0;font-size:1.6rem;line-height:1.25;font-weight:600;
font-variant-numeric:tabular-nums;letter-spacing:-.01em;overflow-wrap:anywhere}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;margin:1.5rem 0 0;padding:0}
a{color:var(--accent);text-underline-offset:.2em;text-decoration-thickness:1px}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;margin:.75rem 0;font-size:.94rem}
th,td{padding:.4rem 1.1rem .4rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--rule)}
th{color:var(--muted);font-weight:500;white-space:nowrap;border-bottom-color:var(--muted)}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th.num,td.num{padding-left:1.1rem}
tbody tr:hover{background:var(--card)}
figure{margin:1.25rem 0;position:relative}
svg{display:block;overflow:visible}
.chart svg.wide,.chart svg.slim{width:100%;height:auto}
.chart svg.slim{display:none}
svg:focus-visible,.scroll:focus-visible,a:focus-visible{outline:2px solid var(--accent);
outline-offset:3px;border-radius:3px}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.875rem;margin-bottom:.35rem}
.legend .axis{margin-right:auto;color:var(--muted)}
.legend.many .axis{flex-basis:100%}
.key{display:inline-flex;align-items:center;gap:.4rem}
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}
.s5{--c:var(--s5)}.s6{--c:var(--s6)}.s7{--c:var(--s7)}
.line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.key .line{stroke-width:3}
.line.pale{stroke-width:1;opacity:.3}
.note{color:var(--muted);font-size:.8rem;margin:.1rem 0 0}
.line.dashed{stroke-dasharray:6 4}
.dot{fill:var(--c);stroke:var(--paper);stroke-width:1}
.bar{fill:var(--c)}
.bar.dashed{fill-opacity:.6}
.grid{stroke:var(--rule);fill:none}
.base{stroke:var(--muted);fill:none}
svg text{font-size:12px;fill:var(--ink)}
svg .tick,svg .axis{fill:var(--muted);font-variant-numeric:tabular-nums}
svg .value{font-variant-numeric:tabular-nums}
.end{text-anchor:end}.mid{text-anchor:middle}
.cross{stroke:var(--muted);fill:none;stroke-dasharray:3 3;pointer-events:none}
.tip{position:absolute;pointer-events:none;background:var(--paper);border:1px solid var(--rule);
border-radius:.4rem;padding:.4rem .6rem;font-size:.82rem;line-height:1.45;white-space:nowrap;
box-shadow:0 3px 12px #0002;z-index:2;font-variant-numeric:tabular-nums}
.tip b{font-weight:600;margin-left:.6rem;float:right}
.tip i{display:inline-block;width:.6rem;height:.6rem;border-radius:50%;margin-right:.4rem;
background:var(--c)}
.none{color:var(--muted);font-style:italic}
.gallery{display:flex;flex-wrap:wrap;gap:2rem 2.5rem;align-items:flex-start}
.heat{margin:.5rem 0;max-width:100%;min-width:0}
.heat figcaption{font-size:.94rem;margin-bottom:.6rem;max-width:40rem;overflow-wrap:anywhere}
.map{height:auto;max-width:100%;cursor:crosshair;touch-action:pan-x pan-y}
.map text{font:12.5px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.map text.on{font-weight:700;fill:var(--accent)}
.mesh{fill:none;stroke:var(--rule);stroke-width:1;vector-effect:non-scaling-stroke}
.unknown{fill:#999}
.band{fill:var(--accent);fill-opacity:.13;pointer-events:none}
.aim{fill:none;stroke:var(--ink);stroke-width:1.5;pointer-events:none}
.under{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 1.5rem;min-height:1.6rem;
margin-top:.45rem;font-size:.85rem}
.say{font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.scale{color:var(--muted);display:inline-flex;align-items:center;gap:.4rem;margin-left:auto}
.scale i{width:4.5rem;height:.6rem;border-radius:2px;outline:1px solid var(--rule)}
footer{max-width:54rem;margin:2rem auto 0;padding:1rem 1.5rem 2.5rem;color:var(--muted);
font-size:.85rem}
@media (max-width:40rem){main{padding:1.75rem 1rem 1rem}footer{padding:1rem 1rem 2rem}
h1{font-size:1.55rem}.cards{grid-template-columns:repeat(2,minmax(0,1fr));gap:.6rem}
.cards dd{font-size:1.3rem}section{margin-top:2rem;padding-top:1.25rem}
.chart svg.wide{display:none}.chart svg.slim{display:block}}
@media print{body{font-size:11pt}main{max-width:none;padding:0}nav,.tip{display:none}.cards dd{font-size:1.25rem}
figure,tr,.cards div{break-inside:avoid}h2{break-after:avoid}
.chart svg.wide{display:block}.chart svg.slim{display:none}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
)css";

}  // namespace fovea::report
