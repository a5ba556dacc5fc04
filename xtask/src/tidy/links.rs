//! Links inside the repository lead to existing files and headings.

use super::Problem;
use super::tree::{File, Tree};

pub(super) fn local(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in tree.files().iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in links(file) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if let Err(what) = check_link(tree, file, target) {
                problems.push(Problem::new(&file.path, line, what));
            }
        }
    }
    problems
}

fn check_link(tree: &Tree, from: &File, target: &str) -> Result<(), String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => from.path.clone(),
        _ => resolve(&from.path, path).ok_or(format!("`{target}` leads out of the repository"))?,
    };
    if !tree.holds(&path) {
        return Err(format!("`{target}` leads nowhere"));
    }
    match tree.file(&path) {
        Some(page) if !anchor.is_empty() && !anchors(page).iter().any(|known| known == anchor) => {
            Err(format!("`{target}`: no such heading"))
        }
        _ => Ok(()),
    }
}

/// Resolves a path relative to the file that mentions it; `None` above the root.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The targets of `[text](target)`, except in code.
fn links(page: &File) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (number, line) in prose(page) {
        // Every second piece between backticks is code. A link whose text is code is split by them,
        // and its `](` starts the next piece.
        for piece in line.split('`').step_by(2) {
            let targets = piece.split("](").skip(1);
            links.extend(targets.filter_map(|rest| Some((number, rest.split_once(')')?.0))));
        }
    }
    links
}

fn prose(page: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    page.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The anchors of headings: lower case, hyphens for spaces, no punctuation. A duplicate gets a
/// number.
fn anchors(page: &File) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let headings = prose(page).filter(|(_, line)| line.starts_with('#'));
    for (_, heading) in headings {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let mut names = std::iter::once(slug.clone()).chain(numbered);
        anchors.extend(names.find(|name| !anchors.contains(name)));
    }
    anchors
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check;
    use super::*;

    #[test]
    fn broken_links_are_reported() {
        check(
            local,
            &[
                ("README.md", "# One two: `three`\n\n[a](docs/a.md#here) [b](#one-two-three)\n"),
                (
                    "docs/a.md",
                    "## Here\n## Here\n[up](../README.md) [code](../src/x.rs) [`c`](#here-1)\n\
                     [no](b.md) [no](#there) [out](../../x) [far](https://x.invalid/y)\n\
                     `[no](link)`\n```text\n[no](link)\n```\n",
                ),
                ("src/x.rs", ""),
            ],
            expect![[r#"
                docs/a.md:4: `b.md` leads nowhere
                docs/a.md:4: `#there`: no such heading
                docs/a.md:4: `../../x` leads out of the repository"#]],
        );
    }
}
