#!/bin/sh
# report.sh: the page of a study: complete, harmless whatever its inputs are called, equal on every run; its command makes the
# result again. In a headless Chromium: no sideways scrolling on a phone, tables sort, light and dark, nothing loaded. Without
# a browser those are skipped: Debian's chromium is 350 MB, and no other test needs it.
. tests/common.sh
cd "$work" || exit 1

run() {
  "$dcpsim" "$@" || fail "dcpsim $*: exit $?"
}

name="it's <script>document.documentElement.dataset.pwned=1 & \"x\".txt"
run trace generate lognormal:mean=2000,sigma=1.2,max=60000 -n 1500 -o "$name"
run simulate --trace "$name" --model tiny-1d --cluster h200_8x1 --policy bucket,packed,dcp --steps 10 --seeds 2 \
  --result a.json >/dev/null
run simulate --trace "$name" --model tiny-1d --cluster h200_8x2 --policy bucket,dcp --steps 10 --result b.json >/dev/null
run simulate --trace "$name" --model tiny-1d --cluster h200_8x1 --policy bucket,packed,dcp --steps 10 --advise \
  --result advised.json >/dev/null
cat >s.json <<'END'
{"schema": "dcpsim.sweep/1", "base": {"trace": "sharegpt", "model": "tiny-1d", "policy": "bucket,dcp", "steps": 5, "draws": 0},
 "grid": {"cluster": ["h200_8x1", "h200_8x2"], "max_length": [8192, 16384]}}
END
run sweep s.json -o s.csv 2>/dev/null

# Every string of a result made as nasty as can be.
python3 - <<'END' || failed=1
import json
NASTY = '"\'><script>document.documentElement.dataset.pwned=1</script><img src=x onerror="document.documentElement.dataset.pwned=2">&lt;</title></style>--><!--'
def spoil(x, key=None):
    if isinstance(x, dict):
        return {k: spoil(v, k) for k, v in x.items()}
    if isinstance(x, list):
        return [spoil(v) for v in x]
    return x + NASTY if isinstance(x, str) and key != "schema" else x
result = spoil(json.load(open("advised.json")))
result["options"][NASTY] = NASTY
json.dump(result, open("nasty.json", "w"))
END
run report a.json -o first.html
run report a.json -o again.html
run report a.json -o - >stdout.html
run report a.json b.json s.csv nasty.json -o all.html
run report nasty.json -o nasty.html
run report s.csv -o s.html
cmp first.html again.html || fail 'two pages of one result differ'
cmp first.html stdout.html || fail 'page on stdout and in a file differ'

# Well-formed, harmless, self-contained.
cat >page.py <<'END'
import re, sys
from html.parser import HTMLParser
VOID = {"meta", "link", "br", "img", "input"}
class Page(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.count, self.ids, self.links, self.wrong, self.text, self.pre = [], {}, [], [], [], [], []
    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        for key, value in attributes:
            if key.startswith("on") or key in ("src", "action", "data", "poster", "srcset"):
                self.wrong.append(f"{tag} has {key}")
            if key in ("href", "xlink:href"):
                self.links.append(value)
            if key == "id":
                self.ids.append(value)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "pre":
            self.pre.append("")
    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> out of place at {self.getpos()}")
    def handle_data(self, data):
        self.text.append(data)
        if "pre" in self.open:
            self.pre[-1] += data
def read(name):
    page = Page()
    source = open(name, encoding="utf-8").read()
    page.feed(source)
    page.close()
    if page.open:
        page.wrong.append(f"not closed: {page.open}")
    if page.count.get("script") != 1 or page.count.get("style") != 1 or "img" in page.count or "link" in page.count:
        page.wrong.append(f"unexpected elements: {page.count}")
    for link in page.links:
        if not link.startswith("#") or link[1:] not in page.ids:
            page.wrong.append(f"a link to {link!r}")
    if len(set(page.ids)) != len(page.ids):
        page.wrong.append("ids are not unique")
    if re.search(r"url\(\s*['\"]?(?!#)|@import", source):
        page.wrong.append("the style loads something")
    page.all = " ".join("".join(page.text).split())
    return page
if __name__ == "__main__":
    name, *words = sys.argv[1:]
    page = read(name)
    page.wrong += [f"no {word!r}" for word in words if word not in page.all]
    for line in page.wrong[:5]:
        print(f"{name}: {line}")
    sys.exit(bool(page.wrong))
END
python3 page.py first.html "it's <script>document" 'Per token' 'weight CV, tokens' '2 orders of the samples' 'All options' \
  'How far to trust' attention_forward 'SP 1' --seeds || failed=1
python3 page.py all.html '4 studies side by side' 'Inputs that differ' 'h200_8x2' 'Imbalance against the number of GPUs' \
  'points' "<img src=x onerror=" || failed=1
python3 page.py nasty.html 'cannot be shown' || failed=1
python3 page.py s.html 'fastest at' 'Throughput over' 'Imbalance against' 'All points' || failed=1

# A parameter file that is another one now is not held up as proof.
sed 's/"sha256": "[0-9a-f]*"/"sha256": "00"/' a.json >old.json
run report old.json -o old.html
python3 page.py old.html 'has changed since' || failed=1
grep -q attention_backward old.html && fail 'errors of another parameter file are shown'

# The command of the page makes the result again, quotes in the trace's name and all.
python3 -c 'import page, sys; sys.stdout.write(page.read("first.html").pre[0])' >command.sh
(
  dcpsim() { "$dcpsim" "$@"; }
  mv a.json first.json
  . ./command.sh >/dev/null
) || fail "the page's command fails"
grep -v 'plan_time_s\|"result"' first.json >x
grep -v 'plan_time_s\|"result"' again.json | cmp - x || fail "the page's command makes another result"

# ---- In a browser ----
browser=
for candidate in chromium chromium-browser google-chrome; do
  command -v "$candidate" >/dev/null 2>&1 && browser=$candidate && break
done
if [ -z "$browser" ]; then
  echo 'skipped: what needs a browser (Debian: apt-get install chromium)'
  exit "$failed"
fi

# The page in a frame of a given width: windows cannot be as narrow as a phone.
cat >frame.py <<'END'
import html, sys
name, width = sys.argv[1:]
print(f"""<!DOCTYPE html><body><iframe id="f" style="width:{width}px;height:900px;border:0"
srcdoc="{html.escape(open(name).read())}"></iframe><script>
function luminance(colour) {{
  const [r, g, b] = colour.match(/[0-9.]+/g).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}}
function contrast(a, b) {{
  const x = luminance(a), y = luminance(b);
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}}
document.getElementById("f").onload = function () {{
  const d = this.contentDocument, w = this.contentWindow, out = [];
  const say = (key, value) => out.push(key + "=" + value);
  const card = w.getComputedStyle(d.querySelector("section")).backgroundColor;
  say("width", w.innerWidth);
  say("overflow", d.documentElement.scrollWidth - w.innerWidth);
  say("dark", luminance(w.getComputedStyle(d.body).backgroundColor) < 0.1);
  say("loaded", w.performance.getEntriesByType("resource").length);
  say("pwned", d.documentElement.dataset.pwned);
  let worst = 21;
  for (const e of d.querySelectorAll("header *, section p, section h2, section h3, section td, section th, section dd, pre")) {{
    const under = e.closest(".warning, pre, section, body");
    worst = Math.min(worst, contrast(w.getComputedStyle(e).color, w.getComputedStyle(under).backgroundColor));
  }}
  say("text_contrast", worst >= 4.5);
  let title = d.querySelector("svg text").parentNode;
  say("svg_contrast", contrast(w.getComputedStyle(title).fill, card) >= 4.5);
  const table = d.querySelector("section.study table"), head = table.querySelectorAll("thead button")[1];
  const values = () => Array.from(table.tBodies[0].rows, r => parseFloat(r.cells[1].dataset.v));
  const ordered = (v, sign) => v.every((x, i) => i === 0 || sign * (x - v[i - 1]) >= 0);
  if (head) {{
    head.click();
    say("down", ordered(values(), -1) && head.parentNode.getAttribute("aria-sort") === "descending");
    head.click();
    say("up", ordered(values(), 1) && head.parentNode.getAttribute("aria-sort") === "ascending");
  }}
  document.body.setAttribute("data-probe", out.join(" "));
}};
</script></body>""")
END

# browse FILE WIDTH THEME: what the probe saw.
browse() {
  python3 frame.py "$1" "$2" >frame.html
  theme=1
  [ "$3" = light ] || theme=0
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --blink-settings=preferredColorScheme=$theme --virtual-time-budget=5000 --window-size=1500,1000 \
    --dump-dom "file://$work/frame.html" 2>browser.log | sed -n 's/.*data-probe="\([^"]*\)".*/\1/p'
}

# check PAGE WIDTH THEME
check() {
  dark=false
  [ "$3" = light ] || dark=true
  want="width=$2 overflow=0 dark=$dark loaded=0 pwned=undefined text_contrast=true svg_contrast=true down=true up=true"
  got=$(browse "$1" "$2" "$3")
  [ "$got" = "$want" ] || fail "$1, $2 wide, $3: got '$got', wanted '$want'"
}

for theme in light dark; do
  check all.html 400 "$theme"
  check all.html 1400 "$theme"
done
check first.html 400 light
check s.html 400 dark
check nasty.html 400 light
exit "$failed"
