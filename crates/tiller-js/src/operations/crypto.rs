//! Digests and random bytes.

use hmac::{Hmac, Mac};
use md5::Md5;
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::{OpError, OpInput, OpOutput, OpReply, unknown};
use crate::engine_state::EngineState;

/// The most one call may ask for.
const RANDOM_MAX_BYTES: usize = 64 << 20;

pub(super) fn sync(state: &EngineState, name: &str, input: OpInput) -> OpReply {
    match name {
        "random" => {
            let size: usize = input.read()?;
            let mut bytes = vec![0; size.min(RANDOM_MAX_BYTES)];
            getrandom::fill(&mut bytes).map_err(|err| OpError::new(err.to_string()))?;
            Ok(OpOutput::Bytes(bytes))
        }
        "hash" => {
            let algorithm: String = input.read()?;
            hash(&algorithm, &input.bytes()).map(OpOutput::Bytes)
        }
        "hmac" => {
            let Keyed { algorithm, key } = input.read()?;
            hmac(&algorithm, &unhex(&key), &input.bytes()).map(OpOutput::Bytes)
        }
        "pbkdf2" => pbkdf2(input, &|| state.budget.is_abandoned()),
        "equal" => {
            let other: String = input.read()?;
            let ours = input.bytes();
            let theirs = unhex(&other);
            let differs = ours.iter().zip(&theirs).fold(0, |all, (a, b)| all | (a ^ b));
            Ok(OpOutput::json(&(differs == 0 && ours.len() == theirs.len())))
        }
        _ => Err(unknown(name)),
    }
}

#[derive(Deserialize)]
struct Keyed {
    algorithm: String,
    /// Hexadecimal.
    key: String,
}

fn hash(algorithm: &str, bytes: &[u8]) -> Result<Vec<u8>, OpError> {
    Ok(match plain(algorithm).as_str() {
        "md5" => Md5::digest(bytes).to_vec(),
        "sha1" => Sha1::digest(bytes).to_vec(),
        "sha224" => Sha224::digest(bytes).to_vec(),
        "sha256" => Sha256::digest(bytes).to_vec(),
        "sha384" => Sha384::digest(bytes).to_vec(),
        "sha512" => Sha512::digest(bytes).to_vec(),
        _ => return Err(unsupported(algorithm)),
    })
}

fn hmac(algorithm: &str, key: &[u8], bytes: &[u8]) -> Result<Vec<u8>, OpError> {
    macro_rules! with {
        ($digest:ty) => {{
            let mac = Hmac::<$digest>::new_from_slice(key);
            let mut mac = mac.map_err(|err| OpError::new(err.to_string()))?;
            mac.update(bytes);
            mac.finalize().into_bytes().to_vec()
        }};
    }
    Ok(match plain(algorithm).as_str() {
        "md5" => with!(Md5),
        "sha1" => with!(Sha1),
        "sha224" => with!(Sha224),
        "sha256" => with!(Sha256),
        "sha384" => with!(Sha384),
        "sha512" => with!(Sha512),
        _ => return Err(unsupported(algorithm)),
    })
}

#[derive(Deserialize)]
struct Stretch {
    algorithm: String,
    /// Hexadecimal.
    salt: String,
    iterations: u32,
    length: usize,
}

/// Rounds between two checks of the time limit.
const ROUNDS_AT_ONCE: u32 = 1 << 10;

/// RFC 8018, section 5.2. Ends early when abandoned.
fn pbkdf2(input: OpInput, is_over: &dyn Fn() -> bool) -> OpReply {
    let Stretch { algorithm, salt, iterations, length } = input.read()?;
    let password = input.bytes();
    let salt = unhex(&salt);
    let mut key = Vec::new();
    let mut block = 1_u32;
    while key.len() < length.min(RANDOM_MAX_BYTES) {
        if is_over() {
            return Err(OpError::new("interrupted"));
        }
        let mut last = hmac(&algorithm, &password, &[&salt[..], &block.to_be_bytes()].concat())?;
        let mut sum = last.clone();
        for round in 1..iterations {
            if round % ROUNDS_AT_ONCE == 0 && is_over() {
                return Err(OpError::new("interrupted"));
            }
            last = hmac(&algorithm, &password, &last)?;
            for (sum, byte) in sum.iter_mut().zip(&last) {
                *sum ^= byte;
            }
        }
        key.extend(sum);
        block += 1;
    }
    key.truncate(length);
    Ok(OpOutput::Bytes(key))
}

fn plain(algorithm: &str) -> String {
    algorithm.to_ascii_lowercase().trim_start_matches("rsa-").replace('-', "")
}

fn unsupported(algorithm: &str) -> OpError {
    OpError::coded("ERR_CRYPTO_INVALID_DIGEST", format!("Invalid digest: {algorithm}"))
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::text::hex;
    use super::*;

    fn hash_hex(algorithm: &str, text: &str) -> String {
        hash(algorithm, text.as_bytes()).map_or_else(|failed| failed.message, |bytes| hex(&bytes))
    }

    #[test]
    fn digests() {
        expect!["900150983cd24fb0d6963f7d28e17f72"].assert_eq(&hash_hex("md5", "abc"));
        expect!["a9993e364706816aba3e25717850c26c9cd0d89d"].assert_eq(&hash_hex("SHA-1", "abc"));
        expect!["Invalid digest: sha0"].assert_eq(&hash_hex("sha0", "abc"));
    }

    #[test]
    fn rfc_6070() {
        let input = OpInput {
            json: r#"{"algorithm":"sha1","salt":"73616c74","iterations":2,"length":20}"#.into(),
            bytes: Some(b"password".to_vec()),
        };
        let Ok(OpOutput::Bytes(key)) = pbkdf2(input, &|| false) else { panic!("no key") };
        expect!["ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"].assert_eq(&hex(&key));
    }
}
