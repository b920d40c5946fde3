"""The style sheet and the script of a report. Both are in the page, which loads nothing."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b2128;--soft:#55606c;--line:#d5dbe1;--card:#f6f8fa;--accent:#1f63b5}
@media(prefers-color-scheme:dark){:root{--bg:#12171d;--fg:#e4eaf0;--soft:#a3afbb;--line:#36404a;--card:#1a2129;--accent:#6fb1f5}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:76rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;margin:0}h2{font-size:1.3rem;margin:2.5rem 0 .75rem}h3{font-size:1.05rem;margin:1.5rem 0 .25rem}
p{margin:.25rem 0 .75rem;max-width:45rem}
a{color:var(--accent)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.soft,figure p,.tile small{color:var(--soft)}
.s{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
nav ul{list-style:none;padding:0;margin:1rem 0;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}
dl.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem;margin:1.25rem 0}
dl.facts div{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem}
dl.facts dt{color:var(--soft);font-size:.85rem}dl.facts dd{margin:0;font-size:1.25rem;font-weight:600}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr));gap:1rem;align-items:start}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem;min-width:0}
figcaption{font-weight:600}figure p{margin:0 0 .25rem;font-size:.9rem}
svg{display:block;width:100%;height:auto}
svg .b{fill:var(--accent)}svg .a{stroke:var(--line)}svg .t{fill:var(--soft);font-size:11px;font-family:system-ui,sans-serif}
svg.m{border:1px solid var(--line);max-width:22rem;shape-rendering:crispEdges}
svg.l{width:100%;min-width:6rem;height:.6rem;margin-top:.45em}
details{margin-top:.5rem}summary{cursor:pointer;color:var(--accent);font-size:.9rem}
table{border-collapse:collapse;width:100%;font-size:.92rem;overflow-wrap:normal}
caption{text-align:left;color:var(--soft)}
th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top;font-weight:400}
tbody th,td{overflow-wrap:anywhere;min-width:3.5rem}tbody th{min-width:6.5rem}
thead th{font-weight:600;vertical-align:bottom}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.wide{overflow-x:auto}
.tall{max-height:32rem;overflow:auto;border:1px solid var(--line);border-radius:.5rem;padding:0 .8rem}
.tall thead th{position:sticky;top:0;background:var(--bg);padding-top:.5rem}
th button{font:inherit;font-weight:600;color:var(--accent);background:none;border:0;padding:0;cursor:pointer;text-align:inherit}
th[aria-sort=ascending] button::after{content:" \\2191"}th[aria-sort=descending] button::after{content:" \\2193"}
.find{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;margin:.5rem 0}
.find input{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--soft);border-radius:.4rem;padding:.3rem .6rem;min-width:0}
.find[hidden]{display:none}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:.75rem;list-style:none;padding:0;margin:.5rem 0}
.letters{grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr))}
.tile{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.5rem;min-width:0}
.tile small{display:block;font-size:.8rem}
.frame{position:relative;display:block;width:fit-content;max-width:100%;margin:0 auto .4rem}
.frame img{display:block;max-width:100%;height:auto}
.frame img.px{image-rendering:pixelated;width:6rem}
.frame svg{position:absolute;inset:0;width:100%;height:100%}
.none{display:block;border:1px dashed var(--soft);color:var(--soft);padding:1.5rem .5rem;text-align:center;font-size:.85rem;margin-bottom:.4rem}
rect.x{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}
.c0{stroke:#ff3b30}.c1{stroke:#34c759}.c2{stroke:#0a84ff}.c3{stroke:#ffcc00}.c4{stroke:#ff2dd4}.c5{stroke:#00d4d4}.c6{stroke:#ff9500}.c7{stroke:#b488ff}
@media(max-width:30rem){svg.l{min-width:3rem}}
pre{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem;white-space:pre-wrap;font-size:.9rem}
@media print{.tall{max-height:none}.find,nav{display:none}}
"""

SCRIPT = """
for (const box of document.querySelectorAll('[data-table]')) {
  const body = box.querySelector('tbody'), rows = [...body.rows];
  const find = box.querySelector('.find');
  if (find) {
    const input = find.querySelector('input'), said = find.querySelector('[role=status]');
    const texts = rows.map(row => row.cells[0].textContent.toLowerCase());
    input.addEventListener('input', () => {
      const wanted = input.value.toLowerCase().trim();
      let found = 0;
      rows.forEach((row, i) => { row.hidden = !texts[i].includes(wanted); found += !row.hidden; });
      said.textContent = wanted ? found.toLocaleString('en') + ' found' : '';
    });
    find.hidden = false;
  }
  const heads = [...box.querySelectorAll('th[data-sort]')];
  heads.forEach(head => {
    const column = head.cellIndex, numeric = head.dataset.sort === 'number';
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const before = head.getAttribute('aria-sort');
      const order = before ? (before === 'descending' ? 'ascending' : 'descending')
                           : (numeric ? 'descending' : 'ascending');
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', order);
      const value = row => {
        const text = row.cells[column].textContent;
        return numeric ? Number(text.replaceAll(',', '')) : text;
      };
      const compare = numeric ? (a, b) => a[0] - b[0]
        : (a, b) => a[0].localeCompare(b[0], 'en', {numeric: true});
      const sorted = rows.map(row => [value(row), row]).sort(compare);
      if (order === 'descending') sorted.reverse();
      body.append(...sorted.map(pair => pair[1]));
    });
  });
}
"""
