//! `@FILE` on the command line: texts and images attached to the first message.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tiller_agent::message::Block;
use tiller_tools::image;

/// A message that a print mode sends at once.
#[derive(Debug, Default, PartialEq)]
pub struct InitialMessage {
    pub text: String,
    pub images: Vec<Block>,
}

/// Larger files are not meant for a model.
const FILE_MAX_BYTES: u64 = 32 << 20;

/// Builds one message from stdin, the files, and the typed text.
pub fn first_message(
    piped: Option<String>,
    files: &[PathBuf],
    typed: Option<String>,
) -> Result<Option<InitialMessage>, String> {
    let mut attached = String::new();
    let mut images = Vec::new();
    for path in files {
        let name = path.display();
        let bytes = read(path).map_err(|why| format!("cannot attach {name}: {why}"))?;
        let text = match image::block(&bytes) {
            Some(image) => {
                images.push(image);
                String::new()
            }
            None => {
                let text = String::from_utf8(bytes);
                let text = text.map_err(|_| format!("cannot attach {name}: it is not text"))?;
                format!("\n{text}\n")
            }
        };
        attached.push_str(&format!("<file name=\"{name}\">{text}</file>\n"));
    }
    let typed = format!("{attached}{}", typed.unwrap_or_default());
    let piped = piped.map(|text| text.trim_end().to_owned());
    let parts: Vec<String> =
        piped.into_iter().chain([typed]).filter(|part| !part.is_empty()).collect();
    let text = parts.join("\n\n");
    Ok((!text.is_empty()).then_some(InitialMessage { text, images }))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = path.metadata().map_err(|err| err.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let file = File::open(path).map_err(|err| err.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|err| err.to_string())?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        Err(format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20))
    } else {
        Ok(bytes)
    }
}
