// Finding, folding and filtering. Everything there is to read is in the page already, or waits in
// it folded; nothing here draws an entry or asks a network for anything.
(() => {
  "use strict";
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const log = $("log"), side = $("side"), rows = $("rows"), list = rows.firstElementChild, search = $("search");

  // One line for each entry, in the order of the page: [id, depth, mark, text, label?, failed?].
  // A depth of 0 is the conversation as it stands; more is a branch that was left.
  const tree = JSON.parse($("tree").textContent);
  const place = new Map(tree.map(([id], at) => [id, at]));
  const wide = matchMedia("(min-width: 56.01rem)");

  // ---- Data that waits, deflated and in base64

  async function unpack(script) {
    const packed = atob(script.textContent);
    const bytes = new Uint8Array(packed.length);
    for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).text();
  }

  // ---- Folded entries

  const packs = all(".pack").map((section) => ({
    section, from: +section.dataset.from, to: +section.dataset.to, open: null,
  }));

  function unfold(pack) {
    pack.open ??= unpack(pack.section.querySelector("script")).then((html) => {
      const template = document.createElement("template");
      template.innerHTML = html;
      dress(template.content);
      pack.section.replaceChildren(template.content);
      showFolds();
      markFound();
    });
    return pack.open;
  }

  // Packs that are neighbours share one bar.
  function showFolds() {
    all(".packed").forEach((bar) => bar.remove());
    for (let first = 0; first < packs.length; first++) {
      if (packs[first].open) continue;
      let last = first;
      while (packs[last + 1] && !packs[last + 1].open) last++;
      const run = packs.slice(first, last + 1);
      const bar = document.createElement("div");
      bar.className = "packed";
      const count = run.at(-1).to - run[0].from;
      bar.append(`${count.toLocaleString()} earlier entries are folded`);
      const button = (text, pack, end) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = text;
        button.onclick = async () => {
          await unfold(pack);
          const entries = all(".e", pack.section);
          entries.at(end)?.scrollIntoView({ block: end ? "end" : "start" });
        };
        bar.append(button);
      };
      run.at(-1).section.append(bar);
      first = last;
      if (!window.DecompressionStream) {
        bar.append(", and this browser is too old to unfold them");
        continue;
      }
      if (run.length > 1) button("Show the first", run[0], 0);
      button(run.length > 1 ? "Show the last" : "Show", run.at(-1), run.length > 1 ? -1 : 0);
    }
  }

  // ---- What entries can do beyond being read

  const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const day = new Intl.DateTimeFormat(undefined, { dateStyle: "long", timeStyle: "short" });

  function dress(within) {
    for (const time of all("time", within)) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      time.title = full.format(at);
      time.textContent = (time.closest("#top") ? day : hour).format(at);
    }
    for (const image of all("img.zoom", within)) {
      image.tabIndex = 0;
      image.setAttribute("role", "button");
      image.setAttribute("aria-label", "Picture, show it larger");
    }
    if (pressed("thinking")) all(".think", within).forEach((fold) => { fold.open = true });
  }

  function zoom(image) {
    $("zoom").firstElementChild.src = image.src;
    $("zoom").showModal();
  }
  $("zoom").addEventListener("click", () => $("zoom").close());

  // A copy button comes to where the pointer or the keyboard is.
  function offerCopy(event) {
    const block = event.target.closest("pre");
    const header = event.target.closest(".e")?.querySelector(":scope > header");
    if (block && !block.classList.contains("plain")) addCopy(block, () => codeOf(block));
    if (header?.parentElement.querySelector(":scope > .md")) {
      addCopy(header, () => all(":scope > .md", header.parentElement).map((text) => text.innerText).join("\n\n"));
    }
  }
  // What is numbered on the page has signs in the copy, so that it is still a change.
  function codeOf(block) {
    const code = block.querySelector("code").cloneNode(true);
    for (const number of all("i", code)) {
      number.replaceWith(number.closest(".add") ? "+" : number.closest(".del") ? "-" : " ");
    }
    return code.textContent;
  }
  function addCopy(to, text) {
    if (to.querySelector(":scope > .copy")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.onclick = async () => {
      button.textContent = (await copy(text())) ? "Copied" : "Cannot copy";
      setTimeout(() => { button.textContent = "Copy" }, 1500);
    };
    const at = to.querySelector(":scope > .at");
    if (at) at.before(button); else to.append(button);
  }
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }
  log.addEventListener("pointerover", offerCopy);
  log.addEventListener("focusin", offerCopy);
  log.addEventListener("click", (event) => {
    if (event.target.matches("img.zoom")) zoom(event.target);
  });

  // ---- Going to an entry

  let current = -1, revealCount = 0;

  async function reveal(id, options = {}) {
    const at = place.get(id);
    if (at === undefined) return;
    const mine = ++revealCount;
    const pack = packs.find((pack) => pack.from <= at && at < pack.to);
    if (pack) await unfold(pack);
    const entry = $("entry-" + id);
    if (!entry) return;
    for (let fold = entry.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (!entry.checkVisibility()) setFilter("all");
    setCurrent(at);
    // A later call of `reveal` takes over the scrolling.
    const go = () => { if (mine === revealCount) entry.scrollIntoView({ block: "start" }) };
    go();
    // What was not laid out before has another height now.
    requestAnimationFrame(() => { go(); requestAnimationFrame(go) });
    mark(entry);
    if (!wide.matches) setSide(false);
    // The keyboard and screen readers continue from the entry.
    if (options.focus) {
      entry.tabIndex = -1;
      entry.focus({ preventScroll: true });
    }
  }

  // The entry that the address names stays marked until the address names another one.
  function mark(entry) {
    for (const old of all(".target", log)) {
      old.classList.remove("target");
      old.removeAttribute("aria-current");
    }
    if (!entry) return;
    void entry.offsetWidth;
    entry.classList.add("target");
    entry.setAttribute("aria-current", "location");
  }

  function setCurrent(at) {
    current = at;
    const row = shown.indexOf(at);
    if (row >= 0) {
      const top = row * height();
      if (top < rows.scrollTop || top > rows.scrollTop + rows.clientHeight - height()) {
        rows.scrollTop = top - rows.clientHeight / 3;
      }
    }
    drawRows();
  }

  function fromHash() {
    let hash = location.hash;
    try { hash = decodeURIComponent(hash) } catch { /* It is no escape, then. */ }
    if (hash.startsWith("#entry-")) reveal(hash.slice(7), { focus: true });
  }

  function step(by, wanted = () => true) {
    const from = current < 0 ? (by > 0 ? -1 : tree.length) : current;
    for (let at = from + by; at >= 0 && at < tree.length; at += by) {
      if (tree[at][1] === 0 && passes(tree[at]) && wanted(tree[at])) return goTo(at, { focus: true });
    }
  }
  function goTo(at, options) {
    const hash = "#entry-" + tree[at][0];
    history.replaceState(null, "", hash);
    reveal(tree[at][0], options);
  }

  // Who scrolls moves through the list, too.
  let looking = 0;
  addEventListener("scroll", () => {
    if (looking) return;
    looking = requestAnimationFrame(() => {
      looking = 0;
      const box = log.getBoundingClientRect();
      const entry = document.elementFromPoint(box.left + box.width / 2, 110)?.closest(".e");
      const at = entry && place.get(entry.id.slice(6));
      if (at !== undefined && at !== null && at !== current) setCurrent(at);
    });
  }, { passive: true });

  // ---- The list: only the rows in sight are in the document

  let shown = [];
  // The meaning of the marks before the rows, for screen readers.
  const KINDS = { u: "User", a: "Assistant", A: "Assistant", t: "Tool", b: "Shell", s: "Summary", m: "Model", c: "Message", n: "Note" };
  const height = () => (wide.matches ? 26 : 34);

  function drawRows() {
    const each = height();
    const first = Math.max(0, Math.floor(rows.scrollTop / each) - 10);
    const last = Math.min(shown.length, Math.ceil((rows.scrollTop + rows.clientHeight) / each) + 10);
    list.style.height = shown.length * each + "px";
    const focused = document.activeElement?.closest("#rows a")?.dataset.row;
    list.replaceChildren(...shown.slice(first, last).map((at, number) => {
      const [id, depth, mark, text, label, failed] = tree[at];
      const item = document.createElement("li");
      item.className = mark + (depth ? " off" : "") + (failed ? " failed" : "");
      item.style.top = (first + number) * each + "px";
      item.ariaPosInSet = first + number + 1;
      item.ariaSetSize = shown.length;
      const link = document.createElement("a");
      link.href = "#entry-" + encodeURIComponent(id);
      link.dataset.row = first + number;
      // The list is one stop on the way through the page; arrows go through its rows.
      link.tabIndex = -1;
      link.style.paddingLeft = 12 + Math.min(depth, 8) * 12 + "px";
      if (at === current) link.setAttribute("aria-current", "true");
      if (depth) link.title = "On another branch";
      const facts = [KINDS[mark], label, depth ? "on another branch" : "", failed ? "failed" : "", text];
      link.ariaLabel = facts.filter(Boolean).join(", ");
      const words = document.createElement("span");
      words.textContent = text || "…";
      if (label) {
        const name = document.createElement("em");
        name.className = "label";
        name.textContent = label;
        link.append(name);
      }
      link.append(words);
      item.append(link);
      return item;
    }));
    const at = focused ?? shown.indexOf(current);
    const stop = list.querySelector(`[data-row="${at}"]`) ?? list.querySelector("a");
    if (stop) stop.tabIndex = 0;
    if (focused !== undefined) stop?.focus({ preventScroll: true });
  }
  rows.addEventListener("scroll", drawRows, { passive: true });
  addEventListener("resize", drawRows);
  rows.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const id = tree[shown[link.dataset.row]][0];
    history.pushState(null, "", "#entry-" + id);
    reveal(id, { focus: true });
  });
  rows.addEventListener("keydown", (event) => {
    const row = +event.target.closest("a")?.dataset.row;
    const to = { ArrowDown: row + 1, ArrowUp: row - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (to === undefined || isNaN(row)) return;
    event.preventDefault();
    focusRow(to);
  });
  function focusRow(row) {
    if (row < 0) return search.focus();
    if (row >= shown.length) return;
    const top = row * height();
    if (top < rows.scrollTop) rows.scrollTop = top;
    if (top + height() > rows.scrollTop + rows.clientHeight) rows.scrollTop = top + height() - rows.clientHeight;
    drawRows();
    all("a", list).forEach((link) => { link.tabIndex = +link.dataset.row === row ? 0 : -1 });
    list.querySelector(`[data-row="${row}"]`)?.focus({ preventScroll: true });
  }

  // ---- Filters and search

  const FILTERS = {
    "default": ([, , mark]) => mark !== "n",
    "no-tools": ([, , mark]) => !"ntbA".includes(mark),
    "user": ([, , mark]) => mark === "u",
    "labelled": ([, , , , label]) => !!label,
    "all": () => true,
  };
  const passes = (line) => FILTERS[root.dataset.filter](line);

  function setFilter(name) {
    root.dataset.filter = name;
    all("#filters button").forEach((button) => button.setAttribute("aria-pressed", button.dataset.filter === name));
    listRows();
  }
  $("filters").addEventListener("click", (event) => {
    if (event.target.dataset.filter) setFilter(event.target.dataset.filter);
  });

  // Everything that was said, in lower case, by place in the tree. Read from the session itself
  // at the first search, so that folded text is found too.
  let corpus = null, loading = null;
  const SILENT = new Set(["data", "id", "parentId", "type", "role", "timestamp", "api", "mimeType", "toolCallId", "details",
    "thinkingSignature", "textSignature", "thoughtSignature", "responseId", "usage", "stopReason", "targetId", "firstKeptEntryId"]);
  function gather(value, into) {
    if (typeof value === "string") into.push(value);
    else if (Array.isArray(value)) value.forEach((item) => gather(item, into));
    else if (value && typeof value === "object") {
      for (const key in value) if (!SILENT.has(key)) gather(value[key], into);
    }
  }
  async function load() {
    const lines = (await unpack($("jsonl"))).split("\n");
    const texts = tree.map(([, , , text, label]) => (text + " " + (label ?? "")).toLowerCase());
    // A call stands in its answer, and is shown with its result.
    const calls = new Map();
    const add = (row, said) => { texts[row] += " " + said.join(" ").toLowerCase() };
    for (let at = 1; at < lines.length; at++) {
      // The page stays alive meanwhile.
      if (at % 4000 === 0) await new Promise((done) => setTimeout(done));
      try {
        const entry = JSON.parse(lines[at]);
        const row = place.get(entry.id);
        if (row === undefined) continue;
        const { role, content, toolCallId } = entry.message ?? {};
        if (role === "assistant" && Array.isArray(content)) {
          for (const call of content.filter((block) => block?.type === "toolCall")) {
            const said = [];
            gather(call, said);
            calls.set(call.id, { row, said, shown: false });
          }
          entry.message.content = content.filter((block) => block?.type !== "toolCall");
        }
        const call = role === "toolResult" && calls.get(toolCallId);
        if (call) {
          call.shown = true;
          add(row, call.said);
        }
        const said = [];
        gather(entry, said);
        add(row, said);
      } catch { /* A damaged line says nothing. */ }
    }
    for (const { row, said, shown } of calls.values()) if (!shown) add(row, said);
    corpus = texts;
  }

  let words = [];
  const found = (at) => {
    const text = corpus ? corpus[at] : (tree[at][3] + " " + (tree[at][4] ?? "")).toLowerCase();
    return words.every((word) => text.includes(word));
  };
  function listRows() {
    shown = [];
    for (let at = 0; at < tree.length; at++) if (passes(tree[at]) && (!words.length || found(at))) shown.push(at);
    $("count").textContent = `${shown.length.toLocaleString()} of ${tree.length.toLocaleString()} entries`;
    if (rows.scrollTop > shown.length * height()) rows.scrollTop = 0;
    drawRows();
    markFound();
  }
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(lookUp, 100);
  });
  function lookUp() {
    words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !corpus) {
      loading ??= load();
      loading.then(listRows);
    }
    listRows();
  }
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); focusRow(Math.floor(rows.scrollTop / height())) }
    if (event.key !== "Enter" || !shown.length) return;
    event.preventDefault();
    const by = event.shiftKey ? -1 : 1;
    const ahead = by > 0 ? shown.find((at) => at > current) : shown.findLast((at) => at < current);
    goTo(ahead ?? (by > 0 ? shown[0] : shown.at(-1)));
  });

  // Shows the words where they stand, in the entries that are laid out.
  function markFound() {
    if (!window.Highlight) return;
    CSS.highlights.delete("found");
    if (!words.length) return;
    const marks = new Highlight();
    for (const at of shown.slice(0, 300)) {
      const entry = $("entry-" + tree[at][0]);
      if (!entry) continue;
      const walker = document.createTreeWalker(entry, NodeFilter.SHOW_TEXT);
      for (let node; (node = walker.nextNode()) && marks.size < 2000;) {
        const text = node.data.toLowerCase();
        for (const word of words) {
          for (let from = text.indexOf(word); from >= 0 && marks.size < 2000; from = text.indexOf(word, from + word.length)) {
            // Some letters change their length with their case.
            if (from + word.length > node.length) break;
            const range = new Range();
            range.setStart(node, from);
            range.setEnd(node, from + word.length);
            marks.add(range);
          }
        }
      }
    }
    CSS.highlights.set("found", marks);
  }

  // ---- The bar and the keys

  const button = (name) => document.querySelector(`#bar [data-do=${name}]`);
  const pressed = (name) => button(name).getAttribute("aria-pressed") === "true";
  function toggleAll(name, selector) {
    const open = !pressed(name);
    button(name).setAttribute("aria-pressed", open);
    all(selector, log).forEach((fold) => { fold.open = open });
  }
  const remember = (key, value) => { try { localStorage.setItem("tiller-" + key, value) } catch { /* Then not. */ } };
  const recall = (key) => { try { return localStorage.getItem("tiller-" + key) } catch { return null } };

  function setSide(open) {
    root.classList.toggle("no-side", !open);
    $("shade").hidden = !open;
    button("side").setAttribute("aria-expanded", open);
    if (open) drawRows();
    else if (side.contains(document.activeElement)) button("side").focus();
  }

  const DO = {
    side: () => {
      setSide(root.classList.contains("no-side"));
      // Over the page, it is what one wants next.
      if (!wide.matches && !root.classList.contains("no-side")) rows.focus();
    },
    thinking: () => toggleAll("thinking", ".think"),
    tools: () => toggleAll("tools", ":is(.tool, .call, .bash) > details"),
    theme: () => {
      const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
      root.dataset.theme = dark ? "light" : "dark";
      remember("theme", root.dataset.theme);
    },
    download: async () => {
      const text = await unpack($("jsonl"));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
      link.download = $("jsonl").dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    },
    help: () => $("help").showModal(),
  };
  $("bar").addEventListener("click", (event) => DO[event.target.closest("button")?.dataset.do]?.());
  $("shade").addEventListener("click", () => setSide(false));

  const KEYS = {
    "/": () => { setSide(true); search.focus(); search.select() },
    "j": () => step(1),
    "k": () => step(-1),
    "n": () => step(1, ([, , mark]) => mark === "u"),
    "p": () => step(-1, ([, , mark]) => mark === "u"),
    "g": () => { revealCount++; scrollTo(0, 0); mark(null); setCurrent(-1) },
    "G": () => { current = tree.length; step(-1) },
    "t": DO.thinking, "o": DO.tools, "b": DO.side, "d": DO.theme, "?": DO.help,
  };
  Object.keys(FILTERS).forEach((name, at) => { KEYS[at + 1] = () => setFilter(name) });

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if ((event.key === "Enter" || event.key === " ") && event.target.matches("img.zoom")) {
      event.preventDefault();
      return zoom(event.target);
    }
    if (event.key === "Escape") {
      if (!wide.matches) setSide(false);
      search.value = "";
      words = [];
      setFilter("default");
      return search.blur();
    }
    if (event.target.matches("input, textarea, select")) return;
    const act = KEYS[event.key];
    if (act) { event.preventDefault(); act() }
  });

  // ---- Begin

  const theme = recall("theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  root.classList.add("js");
  side.hidden = $("bar").hidden = false;
  setSide(wide.matches);
  dress(document);
  showFolds();
  listRows();
  addEventListener("hashchange", fromHash);
  if (location.hash) fromHash();
  root.dataset.ready = "yes";
})();
