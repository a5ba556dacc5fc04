//! Writes the page from its first byte to its last, as it is rendered.
//!
//! Only one entry, a list of indexes, and a line for each entry of the tree are in memory at a
//! time. The newest entries are plain HTML. In a long session the earlier ones are folded: their
//! HTML is stored in compressed packs that the page's script unfolds on demand, because a browser
//! could not lay out a hundred thousand messages.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use tiller_session::{Outline, Session};

use crate::Export;
use crate::embed::Pack;
use crate::entry::{EntryMeta, EntryRenderer, Preview};
use crate::head::{self, head};
use crate::highlight::Colours;
use crate::mask::Mask;
use crate::scan::{EntryKind, Scan, scan};
use crate::text::{entries, grouped, one_line, shown};
use crate::tree_order::{TreeRow, order};

const PAGE: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// How many entries are not folded, and how many bytes of the session file.
const LIVE_ENTRIES: usize = 2000;
const LIVE_BYTES: u64 = 16 * 1024 * 1024;
/// How many entries form a pack.
const PACK_ENTRIES: usize = 500;

/// Writes the page of a session.
pub(crate) fn write(export: &Export, session: &Session, out: &mut dyn Write) -> io::Result<()> {
    let mask = Mask::new(export.secrets.iter().cloned());
    let mut outline = session.outline();
    let scan = scan(&mut outline, &mask).map_err(io::Error::other)?;
    let rows = order(&outline);
    let mut page = Page { export, session, mask, outline, scan, rows, tree: Vec::new(), out };
    for piece in PAGE.split("{{") {
        let text = match piece.split_once("}}") {
            Some((slot, text)) => {
                page.fill(slot)?;
                text
            }
            None => piece,
        };
        page.text(text)?;
    }
    Ok(())
}

struct Page<'a> {
    export: &'a Export,
    session: &'a Session,
    mask: Mask,
    outline: Outline<'a>,
    scan: Scan,
    rows: Vec<TreeRow>,
    /// A growing JSON array: the lines of the tree, in the order of the page.
    tree: Vec<u8>,
    out: &'a mut dyn Write,
}

impl Page<'_> {
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Writes the content for a slot, a name in double braces in the template.
    fn fill(&mut self, slot: &str) -> io::Result<()> {
        match slot {
            "policy" => self.text(&policy()),
            "version" => self.text(env!("CARGO_PKG_VERSION")),
            "style" => self.text(STYLE),
            "script" => self.text(SCRIPT),
            "title" => {
                let title = head::title(self.session, &self.scan, &self.mask);
                self.text(&shown(&title))
            }
            "head" => self.head(),
            "entries" => self.entries(),
            "tree" => {
                let tree = std::mem::take(&mut self.tree);
                self.out.write_all(&tree)?;
                self.text("]")
            }
            "name" => {
                let name = shown(&self.mask.text(&self.export.source.file_name()));
                self.text(&name)
            }
            "jsonl" => self.jsonl(),
            _ => unreachable!("page.html has an unknown placeholder: {slot}"),
        }
    }

    fn head(&mut self) -> io::Result<()> {
        let mut is_on_path = vec![false; self.rows.len()];
        for row in self.rows.iter().filter(|row| row.is_on_path()) {
            is_on_path[row.index] = true;
        }
        let last = self.scan.answers.iter().rev().find(|answer| is_on_path[answer.index]);
        let model = last.and_then(|answer| self.scan.models.get(answer.model));
        let window = model.and_then(|model| self.export.windows.get(model)).copied();
        let mut html = String::new();
        head(self.session, &self.scan, &self.mask, |index| is_on_path[index], window, &mut html);
        if let Some(setting) = &self.export.setting {
            head::setting(setting, &self.mask, &mut html);
        }
        self.text(&html)
    }

    fn entries(&mut self) -> io::Result<()> {
        let mut renderer = EntryRenderer::new(std::mem::take(&mut self.scan.calls));
        let live = self.live_from();
        self.tree.push(b'[');
        if live > 0 {
            let note = format!(
                "<noscript><p class=\"hint\">{} of {} are hidden; enable scripts to show them.</p></noscript>\n",
                grouped(live as u64),
                entries(self.rows.len()),
            );
            self.text(&note)?;
            // Folded entries are not highlighted: the budget is for those that are always visible.
            renderer.colours = Colours::none();
        }
        let mut from = 0;
        while from < live {
            let to = self.next_cut(from + PACK_ENTRIES).min(live);
            let rows = format!("<section class=\"pack\" data-from=\"{from}\" data-to=\"{to}\">");
            self.text(&rows)?;
            self.text("<script type=\"text/plain\">")?;
            let mut html = String::new();
            let mut drawn = RenderedRow::default();
            // A pack writes to the page while entries are read from it.
            let mut packed = Pack::begin(Vec::new());
            for at in from..to {
                self.row(at, &mut renderer, &mut drawn, &mut html)?;
                if drawn.is_titled() {
                    packed.write_all(html.as_bytes())?;
                    html.clear();
                }
            }
            drawn.close(&mut html);
            packed.write_all(html.as_bytes())?;
            let packed = packed.end()?;
            self.out.write_all(&packed)?;
            self.text("</script></section>\n")?;
            from = to;
        }
        renderer.colours = Colours::new();
        let mut drawn = RenderedRow::default();
        let mut html = String::new();
        for at in live..self.rows.len() {
            self.row(at, &mut renderer, &mut drawn, &mut html)?;
            if drawn.is_titled() {
                self.out.write_all(html.as_bytes())?;
                html.clear();
            }
        }
        drawn.close(&mut html);
        self.text(&html)
    }

    /// The first row that is not folded.
    fn live_from(&self) -> usize {
        let mut bytes = 0;
        let mut from = self.rows.len();
        while from > 0 && self.rows.len() - from < LIVE_ENTRIES {
            bytes += self.outline.bytes(self.rows[from - 1].index);
            // The last entry is shown whatever its size.
            if bytes > LIVE_BYTES && from < self.rows.len() {
                break;
            }
            from -= 1;
        }
        if from == 0 { 0 } else { self.next_cut(from) }
    }

    /// The first row from here on at which the page can be split. A branch is not split.
    fn next_cut(&self, from: usize) -> usize {
        let from = from.min(self.rows.len());
        let next = self.rows[from..].iter().position(TreeRow::is_on_path);
        next.map_or(self.rows.len(), |at| from + at)
    }

    /// Renders a row, and adds its line to the tree.
    fn row(
        &mut self,
        at: usize,
        renderer: &mut EntryRenderer,
        drawn: &mut RenderedRow,
        html: &mut String,
    ) -> io::Result<()> {
        let row = self.rows[at];
        let mut article = String::new();
        let line = if self.outline.is_damaged(row.index) {
            None
        } else {
            let line = self.outline.line(row.index).map_err(io::Error::other)?;
            Some(self.mask.line(&line).into_owned())
        };
        let label = self.outline.label(row.index).map(|label| self.mask.text(label).into_owned());
        let kind = self.scan.kinds[row.index];
        let meta = EntryMeta {
            at: row.index,
            id: self.outline.id(row.index),
            kind,
            label: label.as_deref(),
        };
        let entry = line.as_deref().and_then(|line| self.outline.entry(row.index, line));
        let preview = renderer.article(&meta, entry.as_ref(), line.as_deref(), &mut article);
        if row.is_on_path() || row.begins_branch {
            drawn.close(html);
        }
        if row.begins_branch {
            let branch = &self.rows[at..];
            let others =
                branch[1..].iter().take_while(|row| !row.is_on_path() && !row.begins_branch);
            let len = 1 + others.count();
            let is_minor =
                branch[..len].iter().all(|row| self.scan.kinds[row.index] == EntryKind::Note);
            drawn.open(len, is_minor, &preview.text, html);
        }
        if !matches!(kind, EntryKind::Note | EntryKind::Model) {
            drawn.title(&preview.text, html);
        }
        if row.is_fork {
            html.push_str("<p class=\"forked\">Another branch from further up</p>\n");
        }
        html.push_str(&article);
        let mark = match kind {
            EntryKind::Answer if preview.is_only_calls => "A",
            kind => &kind.class()[..1],
        };
        let label = label.map(|label| one_line(&label, 60));
        self.line(&row, mark, &preview, label.as_deref());
        Ok(())
    }

    /// `[id, depth, mark, text, label?, failed?]`
    fn line(&mut self, row: &TreeRow, mark: &str, preview: &Preview, label: Option<&str>) {
        let mut line: Vec<Value> = vec![
            self.outline.id(row.index).into(),
            row.depth.into(),
            mark.into(),
            preview.text.as_str().into(),
        ];
        if label.is_some() || preview.is_failed {
            line.push(label.into());
        }
        if preview.is_failed {
            line.push(1.into());
        }
        // A `<` could end the script element that contains the data.
        let line = Value::from(line).to_string().replace('<', "\\u003c");
        if self.tree.len() > 1 {
            self.tree.extend_from_slice(b",\n");
        }
        self.tree.extend_from_slice(line.as_bytes());
    }

    /// The session file itself, without secrets.
    fn jsonl(&mut self) -> io::Result<()> {
        let mut pack = Pack::begin(&mut *self.out);
        let header = self.session.header().line();
        pack.write_all(self.mask.line(&header).as_bytes())?;
        pack.write_all(b"\n")?;
        for index in 0..self.outline.len() {
            let line = self.outline.line(index).map_err(io::Error::other)?;
            pack.write_all(self.mask.line(&line).as_bytes())?;
            pack.write_all(b"\n")?;
        }
        pack.end()?;
        Ok(())
    }
}

/// The branch that is open in the HTML.
#[derive(Default)]
struct RenderedRow {
    is_open: bool,
    title: Option<Title>,
}

/// A branch's title, which waits for the first message of the branch.
struct Title {
    /// Its position in the HTML that is not written yet.
    at: usize,
    /// The title if there is no message.
    otherwise: String,
}

impl RenderedRow {
    fn open(&mut self, len: usize, is_minor: bool, first: &str, html: &mut String) {
        let class = if is_minor { "branch minor" } else { "branch" };
        html.push_str(&format!(
            "<details class=\"{class}\"><summary>Another branch<span class=\"aside\">{}</span>\
             <span class=\"first\">",
            entries(len),
        ));
        self.title = Some(Title { at: html.len(), otherwise: first.to_owned() });
        html.push_str("</span></summary>\n");
        self.is_open = true;
    }

    /// Sets the title of the open branch, unless it has one.
    fn title(&mut self, text: &str, html: &mut String) {
        if let Some(title) = self.title.take() {
            html.insert_str(title.at, &shown(text));
        }
    }

    /// Whether the HTML so far can be written.
    fn is_titled(&self) -> bool {
        self.title.is_none()
    }

    fn close(&mut self, html: &mut String) {
        if let Some(Title { otherwise, .. }) = &self.title {
            let otherwise = otherwise.clone();
            self.title(&otherwise, html);
        }
        if std::mem::take(&mut self.is_open) {
            html.push_str("</details>\n");
        }
    }
}

/// The content security policy: the page may run its own script, use its own style and show
/// embedded images. It can request nothing.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE),
    )
}
