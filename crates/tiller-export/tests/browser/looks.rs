//! Appearance: light, dark, phone, print, and accessibility.

use serde_json::{Value, json};

use super::chromium::{Tab, with_tab};
use super::pages::sample;

fn prefer(tab: &mut Tab, scheme: &str) {
    let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
    tab.call("Emulation.setEmulatedMedia", json!({"features": features}));
}

#[test]
fn colour_scheme_follows_the_reader() {
    with_tab("dark", |tab| {
        let page = sample();
        prefer(tab, "light");
        tab.go(&page.path, "");
        let paper = "getComputedStyle(document.body).backgroundColor";
        assert_eq!(tab.eval(paper), "rgb(250, 249, 247)");
        prefer(tab, "dark");
        assert_eq!(tab.eval(paper), "rgb(16, 20, 23)");
        tab.press("d");
        assert_eq!(tab.eval(paper), "rgb(250, 249, 247)");
        tab.click("#bar [data-do=theme]");
        assert_eq!(tab.eval(paper), "rgb(16, 20, 23)");
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

/// The contrast of every text with its background, by the formula of WCAG 2; AA requires 4.5.
const CONTRAST: &str = r#"(() => {
  const parse = (c) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const lum = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] === 255) return c;
    }
    return [255, 255, 255];
  };
  document.querySelectorAll("details").forEach((e) => { e.open = true });
  const poor = new Map();
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    const style = getComputedStyle(e);
    if (!own || !e.checkVisibility() || style.visibility === "hidden" || e.closest("svg, script, style, .sr, .skip")) continue;
    const [a, b] = [lum(parse(style.color)), lum(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.set(e.tagName + "." + e.className, ratio.toFixed(2));
  }
  return [...poor].map(([name, ratio]) => name + " " + ratio);
})()"#;

#[test]
fn every_text_has_enough_contrast() {
    with_tab("contrast", |tab| {
        let page = sample();
        for scheme in ["light", "dark"] {
            prefer(tab, scheme);
            tab.go(&page.path, "");
            tab.press("5");
            assert_eq!(tab.eval(CONTRAST), json!([]), "{scheme}");
        }
    });
}

#[test]
fn page_fits_a_phone() {
    with_tab("phone", |tab| {
        let page = sample();
        tab.size(390, 844);
        tab.go(&page.path, "");
        tab.eval("document.querySelectorAll('details').forEach(e => { e.open = true })");
        assert_eq!(tab.eval("document.documentElement.scrollWidth <= 390"), true);
        let side = "document.getElementById('side').checkVisibility()";
        assert_eq!(tab.eval(side), false);
        tab.click("#bar [data-do=side]");
        assert_eq!(tab.eval(side), true);
        assert_eq!(tab.eval("document.activeElement.id"), "rows");
        tab.press("Escape");
        assert_eq!(tab.eval(side), false);
        assert_eq!(tab.eval("document.activeElement.dataset.do"), "side");
        tab.click("#bar [data-do=side]");
        tab.click("#rows li.u:nth-of-type(2) a, #rows li.u a");
        tab.until(&format!("!{side}"));
        // Touch targets are large enough.
        let small =
            "[...document.querySelectorAll('#bar button')].filter(e => e.offsetHeight < 40).length";
        assert_eq!(tab.eval(small), 0);
        // The usage of an answer is not cut off, and no language label covers code.
        let cut = "[...document.querySelectorAll('.answer > header > .aside')].filter(e => e.scrollWidth > e.clientWidth).length";
        assert_eq!(tab.eval(cut), 0);
        let padding =
            "getComputedStyle(document.querySelector('.code[data-lang] > code')).paddingTop";
        assert_eq!(tab.eval(padding), "25.6px");
        assert_eq!(tab.misdeeds(), [""; 0]);
    });
}

#[test]
fn print_shows_only_the_conversation() {
    with_tab("print", |tab| {
        let page = sample();
        prefer(tab, "dark");
        tab.go(&page.path, "");
        tab.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
        for hidden in ["#side", "#bar", "footer"] {
            let visible = format!("document.querySelector('{hidden}').checkVisibility()");
            assert_eq!(tab.eval(&visible), false, "{hidden}");
        }
        assert_eq!(tab.eval("getComputedStyle(document.body).color"), "rgb(28, 34, 39)");
        let pdf = tab.call("Page.printToPDF", json!({"printBackground": true}));
        assert!(pdf["data"].as_str().unwrap().len() > 20_000);
    });
}

#[test]
fn every_control_has_an_accessible_name() {
    with_tab("names", |tab| {
        let page = sample();
        tab.go(&page.path, "");
        tab.call("Accessibility.enable", json!({}));
        let tree = tab.call("Accessibility.getFullAXTree", json!({}));
        let mut roles = Vec::new();
        let mut nameless = Vec::new();
        for node in tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false)
        {
            let role = node["role"]["value"].as_str().unwrap_or_default();
            let name = node["name"]["value"].as_str().unwrap_or_default();
            roles.push(role);
            let wants_one = [
                "button",
                "link",
                "image",
                "searchbox",
                "navigation",
                "main",
                "complementary",
                "toolbar",
                "heading",
            ];
            if wants_one.contains(&role) && name.trim().is_empty() {
                nameless.push(node.clone());
            }
        }
        assert_eq!(nameless, Vec::<Value>::new());
        for landmark in
            ["main", "navigation", "complementary", "banner", "contentinfo", "searchbox"]
        {
            assert!(roles.contains(&landmark), "{landmark}");
        }
        assert_eq!(tab.eval("document.querySelectorAll('h1').length"), 1);
        assert_eq!(tab.eval("document.documentElement.lang"), "en");
        // No heading level is skipped.
        let levels = tab.eval("[...document.querySelectorAll('h1, main :is(h2, h3, h4, h5, h6)')].map(e => +e.tagName[1])");
        let levels: Vec<i64> =
            levels.as_array().unwrap().iter().map(|level| level.as_i64().unwrap()).collect();
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    });
}
