//! What a file is by its first bytes, and what its name may be.

use crate::refusal::Refusal;
use axum::http::{StatusCode, header};

/// So many first bytes decide.
pub(crate) const HEAD_BYTES: usize = 512;
/// Where other types have their mark.
const MARK_BYTES: usize = 4;
/// A name may have so many bytes.
const NAME_BYTES_MAX: usize = 255;

/// The kind of a file; what it claims to be must fit. What is named a CSV and begins as text is
/// one: the worker says which row is wrong.
pub(crate) fn kind_of(
    head: &[u8],
    name: &str,
    claimed: Option<&str>,
) -> Result<&'static str, Refusal> {
    let found = match head {
        [0x89, b'P', b'N', b'G', ..] => "png",
        [0xff, 0xd8, 0xff, ..] => "jpeg",
        head if is_text(head) => "csv",
        head if is_named_csv(name) && begins_as_text(head) => "csv",
        _ => "",
    };
    let claims_image = claimed.is_some_and(|claimed| claimed.starts_with("image/"));
    if claims_image && !matches!(found, "png" | "jpeg") {
        let message = format!(
            "the part says image, and its bytes are {}; send PNG or JPEG",
            in_words(head)
        );
        return Err(unsupported(message));
    }
    match found {
        "" => Err(unsupported(format!(
            "the file is {}; send CSV, PNG or JPEG",
            in_words(head)
        ))),
        found => Ok(found),
    }
}

fn unsupported(message: String) -> Refusal {
    Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_type",
        message,
    )
}

/// Text in UTF-8, perhaps cut in a character.
fn is_text(head: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    is_utf8 && !has_controls(head)
}

fn has_controls(head: &[u8]) -> bool {
    head.iter().any(|byte| matches!(byte, 0..=8 | 14..=31))
}

fn is_named_csv(name: &str) -> bool {
    let end = name.len().saturating_sub(4);
    name.as_bytes()[end..].eq_ignore_ascii_case(b".csv")
}

/// Perhaps in another encoding than UTF-8, but of no type that is known to be something else.
fn begins_as_text(head: &[u8]) -> bool {
    let mark = &head[..head.len().min(MARK_BYTES)];
    !has_controls(mark) && in_words(head) == UNKNOWN
}

const UNKNOWN: &str = "of no type that is known here";

fn in_words(head: &[u8]) -> &'static str {
    match head {
        [0x7f, b'E', b'L', b'F', ..] | [b'M', b'Z', ..] => "an executable",
        [b'#', b'!', ..] => "a script",
        [b'P', b'K', 3, 4, ..] => "a ZIP archive",
        [b'%', b'P', b'D', b'F', ..] => "a PDF",
        [0x1f, 0x8b, ..] => "a gzip file",
        head if is_text(head) => "text",
        _ => UNKNOWN,
    }
}

/// The name of a part's file as its sender has it; `None` if it has none. Some clients send it in
/// another encoding than UTF-8, or as `filename*`: what cannot be read of it becomes `?`.
pub(crate) fn sent_name(part: &multer::Field<'_>) -> Option<String> {
    if let Some(name) = part.file_name() {
        return Some(name.to_owned());
    }
    let disposition = part.headers().get(header::CONTENT_DISPOSITION)?.as_bytes();
    raw_name(disposition)
}

fn raw_name(disposition: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\u{fffd}', "?");
    // Bytes over 127 are never a part of what is looked for.
    let mut parameters = disposition
        .split(|byte| *byte == b';')
        .map(<[u8]>::trim_ascii);
    if let Some(encoded) = parameters
        .clone()
        .find_map(|one| one.strip_prefix(b"filename*="))
    {
        let value = encoded
            .splitn(3, |byte| *byte == b'\'')
            .last()
            .unwrap_or(encoded);
        return Some(text(&unescaped(value)));
    }
    let value = parameters.find_map(|one| one.strip_prefix(b"filename="))?;
    Some(text(value.trim_ascii()).trim_matches('"').to_owned())
}

/// `%XX` as the byte that it stands for.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, others @ ..] = rest {
        let pair = others
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match byte {
            Some(byte) if *first == b'%' => (rest, _) = (&others[2..], bytes.push(byte)),
            _ => (rest, _) = (others, bytes.push(*first)),
        }
    }
    bytes
}

/// The name for people: the last part of a path, without characters that change how it reads. It
/// names nothing in the store.
pub(crate) fn shown_name(name: &str) -> Result<String, Refusal> {
    if name.len() > NAME_BYTES_MAX {
        let message = format!(
            "the file name has {} bytes; at most {NAME_BYTES_MAX}",
            name.len()
        );
        return Err(Refusal::bad("name_too_long", message));
    }
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_hidden = |c: &char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let shown: String = last.chars().filter(|c| !is_hidden(c)).collect();
    Ok(match shown.trim() {
        "" | "." | ".." => "unnamed".to_owned(),
        shown => shown.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_what_the_bytes_are() {
        assert_eq!(kind_of(b"a,b\n1,2\n", "a", None).expect("a kind"), "csv");
        assert_eq!(
            kind_of(
                "中文,1".as_bytes().split_last().expect("bytes").1,
                "a",
                None
            )
            .expect("a kind"),
            "csv"
        );
        assert_eq!(
            kind_of(b"\x89PNG\r\n\x1a\n", "a.csv", Some("text/csv")).expect("a kind"),
            "png"
        );
        for (head, claimed) in [
            (&b"\x7fELF\x02\x01"[..], Some("image/png")),
            (b"MZ\x90\0", None),
            (b"PK\x03\x04", Some("text/csv")),
            (b"a,b\n", Some("image/jpeg")),
            (b"#!/bin/sh\n", Some("image/png")),
        ] {
            for name in ["a", "a.csv"] {
                assert!(kind_of(head, name, claimed).is_err(), "{head:?} {name}");
            }
        }
        // Of text that is no UTF-8, or has a NUL, its name decides.
        for head in [&b"a,b\n1,\xff\xfe"[..], b"Gr\xf6\xdfe,1\n", b"a,b\n1,\0\n"] {
            assert_eq!(kind_of(head, "a.CSV", None).expect("a kind"), "csv");
            assert!(kind_of(head, "a.txt", None).is_err(), "{head:?}");
        }
        for head in [
            &b"%PDF-1.4\n%\xe2\xe3"[..],
            b"\xff\xfea\0,\0b\0",
            b"\x1f\x8b\x08\0",
        ] {
            assert!(kind_of(head, "a.csv", None).is_err(), "{head:?}");
        }
    }

    #[test]
    fn a_name_in_another_encoding_is_read_as_far_as_it_can_be() {
        let read = |text: &[u8]| raw_name(text);
        let latin = b"form-data; name=\"file\"; filename=\"gr\xfc\xdfe.csv\"";
        assert_eq!(read(latin).as_deref(), Some("gr??e.csv"));
        let extended = b"form-data; name=file; filename*=UTF-8''%e4%b8%ad%ff.csv; x=1";
        assert_eq!(read(extended).as_deref(), Some("\u{4e2d}?.csv"));
        assert_eq!(
            read(b"form-data; filename*=%%zz%4").as_deref(),
            Some("%%zz%4")
        );
        for none in [
            &b"form-data; name=\"file\""[..],
            b"",
            b"form-data; xfilename=a",
        ] {
            assert_eq!(read(none), None);
        }
    }

    #[test]
    fn a_name_is_the_last_part_without_hidden_characters() {
        let shown = |name: &str| shown_name(name).expect("a name");
        assert_eq!(shown("../../etc/passwd"), "passwd");
        assert_eq!(shown(r"C:\Users\ann\a.csv"), "a.csv");
        assert_eq!(shown("\u{202e}vsc.exe"), "vsc.exe");
        assert_eq!(shown("a\u{61c}b.csv"), "ab.csv");
        assert_eq!(shown("تقرير.csv"), "تقرير.csv");
        assert_eq!(shown(".."), "unnamed");
        assert_eq!(shown("a\0b\n.csv"), "ab.csv");
        assert!(shown_name(&"n".repeat(4_096)).is_err());
    }
}
