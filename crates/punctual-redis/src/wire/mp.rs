//! MessagePack, as far as the functions use it: texts and bytes are one type there.

use punctual::Result;

use super::damaged;

/// A value; numbers of the functions are whole up to 2^53.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mp {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(Vec<u8>),
    List(Vec<Mp>),
    Map(Vec<(Mp, Mp)>),
}

/// Writes a map, key by key.
#[derive(Debug, Default)]
pub(crate) struct MapWriter {
    count: u32,
    body: Vec<u8>,
}

impl MapWriter {
    pub(crate) fn put(&mut self, key: &str, value: impl Into<Mp>) -> &mut Self {
        self.count += 1;
        Mp::from(key).write(&mut self.body);
        value.into().write(&mut self.body);
        self
    }

    pub(crate) fn put_some(&mut self, key: &str, value: Option<impl Into<Mp>>) -> &mut Self {
        match value {
            Some(value) => self.put(key, value),
            None => self,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn packed(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.body.len() + 5);
        match self.count {
            count @ 0..16 => packed.push(0x80 | count as u8),
            count => {
                packed.push(0xde);
                packed.extend_from_slice(&(count as u16).to_be_bytes());
            }
        }
        packed.extend_from_slice(&self.body);
        packed
    }
}

impl Mp {
    /// Reads one value that takes all of the bytes.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let mut reader = super::Reader(bytes);
        let value = Self::read_from(&mut reader, 0)?;
        reader.end()?;
        Ok(value)
    }

    fn read_from(reader: &mut super::Reader<'_>, depth: u8) -> Result<Self> {
        if depth > 16 {
            return Err(damaged());
        }
        let first = reader.u8()?;
        let length = match first {
            0x00..=0x7f => return Ok(Self::Int(first.into())),
            0xe0..=0xff => return Ok(Self::Int(i64::from(first as i8))),
            0xc0 => return Ok(Self::Nil),
            0xc2 | 0xc3 => return Ok(Self::Bool(first == 0xc3)),
            0xca => return Ok(Self::Float(f32::from_bits(reader.u32()? as u32).into())),
            0xcb => return Ok(Self::Float(f64::from_bits(reader.u64()?))),
            0xcc => return Ok(Self::Int(reader.u8()?.into())),
            0xcd => return Ok(Self::Int(reader.u16()? as i64)),
            0xce => return Ok(Self::Int(reader.u32()? as i64)),
            0xcf | 0xd3 => return Ok(Self::Int(reader.u64()? as i64)),
            0xd0 => return Ok(Self::Int(i64::from(reader.u8()? as i8))),
            0xd1 => return Ok(Self::Int(i64::from(reader.u16()? as i16))),
            0xd2 => return Ok(Self::Int(i64::from(reader.u32()? as i32))),
            0x80..=0x8f => usize::from(first & 0x0f),
            0x90..=0x9f => usize::from(first & 0x0f),
            0xa0..=0xbf => usize::from(first & 0x1f),
            0xc4 | 0xd9 => reader.u8()?.into(),
            0xc5 | 0xda | 0xdc | 0xde => reader.u16()?,
            0xc6 | 0xdb | 0xdd | 0xdf => reader.u32()?,
            _ => return Err(damaged()),
        };
        match first {
            0x80..=0x8f | 0xde | 0xdf => {
                let pair = |reader: &mut _| {
                    let key = Self::read_from(reader, depth + 1)?;
                    Ok((key, Self::read_from(reader, depth + 1)?))
                };
                (0..length)
                    .map(|_| pair(reader))
                    .collect::<Result<_>>()
                    .map(Self::Map)
            }
            0x90..=0x9f | 0xdc | 0xdd => {
                let items = (0..length).map(|_| Self::read_from(reader, depth + 1));
                items.collect::<Result<_>>().map(Self::List)
            }
            _ => Ok(Self::Bytes(reader.take(length)?.to_vec())),
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nil => out.push(0xc0),
            Self::Bool(value) => out.push(0xc2 | u8::from(*value)),
            Self::Int(value @ 0..=0x7f) => out.push(*value as u8),
            Self::Int(value) => {
                out.push(0xd3);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Self::Float(value) => {
                out.push(0xcb);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Self::Bytes(bytes) => {
                length(out, bytes.len(), (0xa0, 32), Some(0xd9), (0xda, 0xdb));
                out.extend_from_slice(bytes);
            }
            Self::List(items) => {
                length(out, items.len(), (0x90, 16), None, (0xdc, 0xdd));
                items.iter().for_each(|item| item.write(out));
            }
            Self::Map(pairs) => {
                length(out, pairs.len(), (0x80, 16), None, (0xde, 0xdf));
                for (key, value) in pairs {
                    key.write(out);
                    value.write(out);
                }
            }
        }
    }

    /// The value under a key of a map; `Nil` where there is none.
    pub(crate) fn get(&self, key: &str) -> &Self {
        let Self::Map(pairs) = self else {
            return &Self::Nil;
        };
        let found = pairs.iter().find(|(name, _)| match name {
            Self::Bytes(name) => name == key.as_bytes(),
            _ => false,
        });
        found.map_or(&Self::Nil, |(_, value)| value)
    }

    pub(crate) fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    pub(crate) fn int(&self) -> Result<i64> {
        match self {
            Self::Int(value) => Ok(*value),
            Self::Bool(value) => Ok((*value).into()),
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 1e18 => Ok(*value as i64),
            _ => Err(damaged()),
        }
    }

    pub(crate) fn number(&self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| damaged())
    }

    pub(crate) fn float(&self) -> Result<f64> {
        match self {
            Self::Float(value) => Ok(*value),
            value => value.int().map(|value| value as f64),
        }
    }

    /// Whether it is a number other than zero, or true; `Nil` is not.
    pub(crate) fn is_set(&self) -> bool {
        matches!(self.int(), Ok(value) if value != 0)
    }

    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(damaged()),
        }
    }

    pub(crate) fn text(&self) -> Result<String> {
        super::text(self.bytes()?)
    }

    /// The items of a list; an empty table of the functions may come as either form.
    pub(crate) fn list(&self) -> Result<&[Self]> {
        match self {
            Self::List(items) => Ok(items),
            Self::Map(pairs) if pairs.is_empty() => Ok(&[]),
            Self::Nil => Ok(&[]),
            _ => Err(damaged()),
        }
    }

    /// What a closure makes of it, unless it is `Nil`.
    pub(crate) fn some<T>(&self, read: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        if self.is_nil() {
            Ok(None)
        } else {
            read(self).map(Some)
        }
    }
}

fn length(out: &mut Vec<u8>, length: usize, fix: (u8, usize), one: Option<u8>, two_four: (u8, u8)) {
    match (length, one) {
        (length, _) if length < fix.1 => out.push(fix.0 | length as u8),
        (length @ 0..=0xff, Some(one)) => out.extend_from_slice(&[one, length as u8]),
        (length @ 0..=0xffff, _) => {
            out.push(two_four.0);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        (length, _) => {
            out.push(two_four.1);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

impl From<&str> for Mp {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl From<&String> for Mp {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&[u8]> for Mp {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl From<Vec<Mp>> for Mp {
    fn from(items: Vec<Mp>) -> Self {
        Self::List(items)
    }
}

impl From<u64> for Mp {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Mp {
    fn from(value: usize) -> Self {
        (value as u64).into()
    }
}

impl From<u32> for Mp {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<u8> for Mp {
    fn from(value: u8) -> Self {
        Self::Int(value.into())
    }
}

impl From<bool> for Mp {
    /// As the functions write it: 1 or 0.
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

/// An instant as eight bytes, which keep their order.
pub(crate) fn instant(at: punctual::time::Timestamp) -> Mp {
    Mp::Bytes(at.as_micros().to_be_bytes().to_vec())
}

/// Reads an instant: eight bytes, or a number.
pub(crate) fn read_instant(value: &Mp) -> Result<punctual::time::Timestamp> {
    let micros = match value {
        Mp::Bytes(bytes) => u64::from_be_bytes(bytes.as_slice().try_into().map_err(|_| damaged())?),
        value => value.number()?,
    };
    Ok(punctual::time::Timestamp::from_micros(micros))
}
