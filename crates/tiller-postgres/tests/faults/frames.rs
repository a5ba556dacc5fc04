//! The messages of PostgreSQL's protocol, as far as tests look at them: which statements a client
//! sends.

/// The bytes of a client that do not make up a whole message yet.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    has_begun: bool,
}

impl Frames {
    /// Reads further bytes and returns the statements that are complete: the text of each, or `SYNC`
    /// for the end of a request, which the server answers.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<String> {
        self.bytes.extend_from_slice(bytes);
        let mut statements = Vec::new();
        loop {
            // The first message of a connection has no kind.
            let kind = usize::from(self.has_begun);
            let Some(length) = self.bytes.get(kind..kind + 4) else { return statements };
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize + kind;
            if self.bytes.len() < length {
                return statements;
            }
            let message: Vec<u8> = self.bytes.drain(..length).collect();
            if self.has_begun {
                statements.extend(statement(message[0], &message[5..]));
            }
            self.has_begun = true;
        }
    }
}

fn statement(kind: u8, body: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next()?).into_owned().into()
    };
    match kind {
        b'Q' => text(body),
        b'P' => {
            let name = body.iter().position(|byte| *byte == 0)?;
            assert_eq!(name, 0, "a statement has a name, which poolers do not pass");
            text(&body[name + 1..])
        }
        b'S' => Some("SYNC".to_owned()),
        _ => None,
    }
}
