//! What a `system>` line says about the disk.

use super::faulty::{CODES, Faulty, Taken};

/// `EIO`, `EIO once`, `EIO once after 2` successful calls, or `works`.
pub fn change(disk: &Faulty, words: &str) -> Result<(), String> {
    if words == "works" {
        disk.heal();
        return Ok(());
    }
    let (words, after) = words.split_once(" after ").unwrap_or((words, "0"));
    let (name, times) = match words.strip_suffix(" once") {
        Some(name) => (name, 1),
        None => (words, 1000),
    };
    let code = CODES.iter().find(|(known, _)| *known == name);
    let (Some((_, code)), Ok(after)) = (code, after.parse::<usize>()) else {
        return Err(format!("{words:?} is nothing a disk does"));
    };
    disk.fail_after(after, times, *code, Taken::Bytes(10));
    Ok(())
}
