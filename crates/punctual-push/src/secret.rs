//! Signatures after the Standard Webhooks convention.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use punctual::{Error, ErrorKind, Result};
use ring::hmac;

/// A secret that deliveries are signed with: `whsec_` and 24 to 64 bytes in base64.
#[derive(Clone)]
pub struct Secret(hmac::Key);

const PREFIX: &str = "whsec_";

impl Secret {
    /// The signature of one message, without its version.
    fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        BASE64_STANDARD.encode(context.sign())
    }
}

/// The value of `webhook-signature`: one per secret, so that a receiver may still know only the
/// old one, or only the new one.
pub(crate) fn signatures(secrets: &[Secret], id: &str, timestamp: u64, body: &[u8]) -> String {
    let sign = |secret: &Secret| format!("v1,{}", secret.sign(id, timestamp, body));
    let all: Vec<String> = secrets.iter().map(sign).collect();
    all.join(" ")
}

impl FromStr for Secret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = text.strip_prefix(PREFIX);
        let bytes = bytes.and_then(|text| BASE64_STANDARD.decode(text).ok());
        match bytes {
            Some(bytes) if (24..=64).contains(&bytes.len()) => {
                Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
            }
            // The text is not shown: it may be a secret with a slip.
            _ => {
                let message = "a secret is not whsec_ and 24 to 64 bytes in base64; \
                               make one with: echo whsec_$(openssl rand -base64 32)";
                Err(Error::new(ErrorKind::InvalidInput, message))
            }
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests;
