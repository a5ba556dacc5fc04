//! The names under which the model calls the tools of servers: `mcp__SERVER__TOOL`.
//!
//! Providers accept letters, digits, `_` and `-`, and 64 characters at most. Every other character
//! becomes `_`, as in pi. Tools whose names are then the same, or are too long, end with a hash of
//! what the server calls them, so that a name does not depend on the order of a server's list.

use std::collections::HashMap;

/// What every name of an MCP tool begins with.
pub const PREFIX: &str = "mcp__";

const NAME_MAX: usize = 64;
/// `_` and eight digits.
const SUFFIX: usize = 9;

/// The names of a server's tools, in their order.
pub(crate) fn tool_names<'a>(
    server: &str,
    tools: impl Iterator<Item = &'a str> + Clone,
) -> Vec<String> {
    let plain = |tool: &str| format!("{PREFIX}{}__{}", sanitised(server), sanitised(tool));
    let mut counts: HashMap<String, usize> = HashMap::new();
    for tool in tools.clone() {
        *counts.entry(plain(tool)).or_default() += 1;
    }
    let name = |tool: &str| {
        let mut name = plain(tool);
        if counts[&name] > 1 || name.len() > NAME_MAX {
            name.truncate(NAME_MAX - SUFFIX);
            name += &format!("_{:08x}", hash(tool));
        }
        name
    };
    tools.map(name).collect()
}

fn sanitised(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    name.chars().map(plain).collect()
}

/// FNV-1a: names stay the same in all versions of tiller.
fn hash(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(server: &str, tools: &[&str], expected: Expect) {
        expected.assert_eq(&tool_names(server, tools.iter().copied()).join("\n"));
    }

    #[test]
    fn name_has_the_server_and_the_tool() {
        check(
            "my-files",
            &["read_file", "read-file.v2", "größe", ""],
            expect![[r#"
                mcp__my_files__read_file
                mcp__my_files__read_file_v2
                mcp__my_files__gr__e
                mcp__my_files__"#]],
        );
    }

    #[test]
    fn names_that_collide_all_get_a_hash() {
        check(
            "s",
            &["a-b", "a_b", "a.b", "c"],
            expect![[r#"
                mcp__s__a_b_2a89df63
                mcp__s__a_b_1ba46871
                mcp__s__a_b_108bf50c
                mcp__s__c"#]],
        );
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let long = "x".repeat(80);
        check(
            "s",
            &[&format!("{long}1"), &format!("{long}2")],
            expect![[r#"
                mcp__s__xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_7d90ecdc
                mcp__s__xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_8090f195"#]],
        );
    }
}
