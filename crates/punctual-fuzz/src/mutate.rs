//! Small changes, of bytes and of what stands in texts.

use fastrand::Rng;

/// Longer inputs find nothing more here, and slower.
const LONGEST: usize = 1 << 16;

/// Numbers at which readers go wrong, as bytes of a length or an instant.
const NUMBERS: [u64; 9] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// The same in texts, and what else parsers know.
const TEXTS: [&str; 18] = [
    "0",
    "-1",
    "1e400",
    "9223372036854775808",
    "99999999999999999999",
    "0.5",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\\ud800",
    "\u{202e}",
    "9999-12-31T23:59:59Z",
    "-00:00",
    "5d",
    "µs",
    "\0",
];

/// One kept input with a few changes.
pub(crate) fn mutated(kept: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut input = pick(kept, random).to_vec();
    for _ in 0..=random.u8(..6) {
        change(&mut input, kept, random);
    }
    input.truncate(LONGEST);
    input
}

fn change(input: &mut Vec<u8>, kept: &[Vec<u8>], random: &mut Rng) {
    let at = random.usize(..=input.len());
    let end = random.usize(at..=input.len().min(at + 64));
    match random.u8(..9) {
        0 => flip(input, at, random),
        1 => drop(input.drain(at..end)),
        2 => input.truncate(at),
        3 => {
            let part = input[at..end].to_vec();
            splice(input, at..at, &part);
        }
        4 => {
            let other = pick(kept, random);
            let from = random.usize(..=other.len());
            let to = random.usize(from..=other.len());
            splice(input, at..end, &other[from..to]);
        }
        5 => splice(
            input,
            at..end,
            TEXTS[random.usize(..TEXTS.len())].as_bytes(),
        ),
        6 => number(input, at, random),
        7 => splice(input, at..at, &[random.u8(..)]),
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.u8(..);
            }
        }
    }
}

fn flip(input: &mut [u8], at: usize, random: &mut Rng) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.u8(..8);
    }
}

/// Puts a number over one, two, four or eight bytes.
fn number(input: &mut [u8], at: usize, random: &mut Rng) {
    let number = NUMBERS[random.usize(..NUMBERS.len())].to_be_bytes();
    let len = 1 << random.u8(..4);
    for (byte, new) in input.iter_mut().skip(at).take(len).zip(&number[8 - len..]) {
        *byte = *new;
    }
}

fn splice(input: &mut Vec<u8>, at: std::ops::Range<usize>, with: &[u8]) {
    input.splice(at, with.iter().copied());
}

fn pick<'kept>(kept: &'kept [Vec<u8>], random: &mut Rng) -> &'kept [u8] {
    match kept.len() {
        0 => &[],
        len => &kept[random.usize(..len)],
    }
}
