//! Signature Version 4: which request a signature stands for, and the signature.

use punctual::time::Timestamp;
use ring::{digest, hmac};

/// The keys of an account.
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
}

/// What is signed of a request.
pub(super) struct Signing<'a> {
    pub(super) method: &'a str,
    /// Encoded.
    pub(super) path: &'a str,
    /// Sorted by name, not encoded.
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) host: &'a str,
    pub(super) range: Option<&'a str>,
    /// The SHA-256 of the body, in hex.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

impl Signing<'_> {
    /// The query as it is sent, and signed.
    pub(super) fn query(&self) -> String {
        let pairs = self.query.iter();
        let pairs = pairs
            .map(|(name, value)| format!("{}={}", encoded(name, false), encoded(value, false)));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Such as `20130524T000000Z`.
    pub(super) fn instant(&self) -> String {
        let text = self.now.to_string();
        let seconds = text.get(..19).unwrap_or_default();
        format!("{}Z", seconds.replace(['-', ':'], ""))
    }

    /// The header `Authorization`.
    pub(super) fn authorization(&self, keys: &Keys, region: &str) -> String {
        let instant = self.instant();
        let day = &instant[..8];
        let mut headers = vec![("host", self.host)];
        headers.extend(self.range.map(|range| ("range", range)));
        headers.push(("x-amz-content-sha256", self.hash));
        headers.push(("x-amz-date", &instant));
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String = headers
            .iter()
            .map(|(name, value)| format!("{name}:{value}\n"))
            .collect();
        let request = format!(
            "{}\n{}\n{}\n{lines}\n{names}\n{}",
            self.method,
            self.path,
            self.query(),
            self.hash
        );
        let scope = format!("{day}/{region}/s3/aws4_request");
        let text = format!(
            "AWS4-HMAC-SHA256\n{instant}\n{scope}\n{}",
            payload_hash(request.as_bytes())
        );
        let mut key = format!("AWS4{}", keys.secret).into_bytes();
        for part in [day, region, "s3", "aws4_request"] {
            key = mac(&key, part);
        }
        let signature = hex(&mac(&key, &text));
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
            keys.id
        )
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// The SHA-256 of bytes, in hex.
pub(super) fn payload_hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text as it stands in a URL: all but letters, digits and `-._~` as `%XX`.
pub(super) fn encoded(text: &str, keeps_slash: bool) -> String {
    let one = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        b'/' if keeps_slash => "/".to_owned(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// The examples of the documentation of Amazon S3, "Signature Calculations for the
    /// Authorization Header".
    fn signature(path: &str, query: &[(&str, &str)], range: Option<&str>) -> String {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        };
        let signing = Signing {
            method: "GET",
            path,
            query,
            host: "examplebucket.s3.amazonaws.com",
            range,
            hash: EMPTY,
            now: Timestamp::from_micros(1_369_353_600_000_000),
        };
        let header = signing.authorization(&keys, "us-east-1");
        header.rsplit_once('=').expect("a signature").1.to_owned()
    }

    #[test]
    fn signatures_are_those_of_the_documentation() {
        assert_eq!(
            signature("/test.txt", &[], Some("bytes=0-9")),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        assert_eq!(
            signature("/", &[("lifecycle", "")], None),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("/", &[("max-keys", "2"), ("prefix", "J")], None),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn text_of_urls_is_encoded() {
        assert_eq!(encoded("a b/c+中~", true), "a%20b/c%2B%E4%B8%AD~");
        assert_eq!(encoded("a/b", false), "a%2Fb");
        assert_eq!(payload_hash(b""), EMPTY);
    }
}
