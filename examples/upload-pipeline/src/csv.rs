//! Rows of a CSV file, read chunk by chunk in bounded memory, from any row on.

use csv_core::{ReadRecordResult, Reader};

/// The cells of one row may have so many bytes together.
pub(crate) const ROW_BYTES_MAX: usize = 64 * 1024;
/// A row may have so many cells.
pub(crate) const COLUMNS_MAX: usize = 1_000;
/// A file may have so many rows.
pub(crate) const ROWS_MAX: i64 = 5_000_000;

/// What is wrong with a file, for the person who sent it.
pub(crate) type Refusal = String;

/// A parser that keeps one row.
pub(crate) struct Rows {
    reader: Reader,
    cells: Vec<u8>,
    ends: Vec<usize>,
    /// How much of both the row under way has filled.
    filled: (usize, usize),
    /// Bytes of the file that were read.
    offset: i64,
    /// Rows that were read, for messages.
    count: i64,
}

impl Rows {
    /// Reads from that byte on, where a row begins.
    pub(crate) fn from(offset: i64, count: i64) -> Self {
        Self {
            reader: Reader::new(),
            cells: vec![0; ROW_BYTES_MAX],
            ends: vec![0; COLUMNS_MAX],
            filled: (0, 0),
            offset,
            count,
        }
    }

    /// Where the row ends that was read last.
    pub(crate) fn offset(&self) -> i64 {
        self.offset
    }

    /// The next row, and what it has read of `input`; `None` once that is used up. Empty input is
    /// the end of the file.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Vec<String>>, Refusal> {
        if self.offset == 0 && input.starts_with(b"\xef\xbb\xbf") {
            *input = &input[3..];
            self.offset = 3;
        }
        let is_end = input.is_empty();
        loop {
            let (cells, ends) = (
                &mut self.cells[self.filled.0..],
                &mut self.ends[self.filled.1..],
            );
            let (result, read, wrote, ended) = self.reader.read_record(input, cells, ends);
            *input = &input[read..];
            self.offset += i64::try_from(read).unwrap_or_default();
            self.filled = (self.filled.0 + wrote, self.filled.1 + ended);
            let row = self.count + 1;
            match result {
                ReadRecordResult::InputEmpty if is_end => continue,
                ReadRecordResult::InputEmpty | ReadRecordResult::End => return Ok(None),
                ReadRecordResult::OutputFull => {
                    return Err(format!(
                        "row {row} has more than {ROW_BYTES_MAX} bytes; is a quote not closed?"
                    ));
                }
                ReadRecordResult::OutputEndsFull => {
                    return Err(format!("row {row} has more than {COLUMNS_MAX} columns"));
                }
                ReadRecordResult::Record => return self.take(row).map(Some),
            }
        }
    }

    fn take(&mut self, row: i64) -> Result<Vec<String>, Refusal> {
        let mut begin = 0;
        let mut cells = Vec::with_capacity(self.filled.1);
        for end in &self.ends[..self.filled.1] {
            let cell = std::str::from_utf8(&self.cells[begin..*end]);
            let cell = cell.map_err(|_| format!("row {row} is not UTF-8 text"))?;
            if cell.contains('\0') {
                return Err(format!("row {row} has a NUL byte; it is no text"));
            }
            cells.push(cell.to_owned());
            begin = *end;
        }
        self.filled = (0, 0);
        self.count = row;
        if row > ROWS_MAX {
            return Err(format!("the file has more than {ROWS_MAX} rows"));
        }
        Ok(cells)
    }
}

/// Whether the first row names columns: it has no numbers and no cell twice, and the second row has
/// a number where the first has a word.
pub(crate) fn is_header(first: &[String], second: Option<&Vec<String>>) -> bool {
    let is_number = |cell: &String| cell.chars().any(|c| c.is_ascii_digit());
    let mut seen = std::collections::HashSet::new();
    let are_names = first
        .iter()
        .all(|cell| !cell.is_empty() && !is_number(cell) && seen.insert(cell));
    are_names
        && second.is_some_and(|second| second.len() == first.len() && second.iter().any(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], step: usize) -> Result<Vec<(Vec<String>, i64)>, Refusal> {
        let mut rows = Rows::from(0, 0);
        let mut found = Vec::new();
        for mut chunk in text.chunks(step).chain([&[][..]]) {
            while let Some(cells) = rows.next(&mut chunk)? {
                found.push((cells, rows.offset()));
            }
        }
        Ok(found)
    }

    #[test]
    fn rows_are_the_same_in_chunks_of_any_length() {
        let text = "\u{feff}name,n\r\n\"a, \"\"b\"\"\r\nc\",1\r\n中文,2\nlast,3".as_bytes();
        let whole = read(text, usize::MAX).expect("rows");
        let cells: Vec<_> = whole.iter().map(|(cells, _)| cells.join("|")).collect();
        assert_eq!(cells, ["name|n", "a, \"b\"\r\nc|1", "中文|2", "last|3"]);
        for step in 3..text.len() {
            let cut: Vec<_> = read(text, step)
                .expect("rows")
                .into_iter()
                .map(|(cells, _)| cells)
                .collect();
            assert_eq!(cut.len(), 4, "chunks of {step}");
            assert_eq!(cut[1], whole[1].0, "chunks of {step}");
        }
    }

    #[test]
    fn a_second_parser_goes_on_at_any_row() {
        let text = b"a,1\r\nb,2\r\n\"c\nd\",3\n\ne,4\n";
        let whole = read(text, usize::MAX).expect("rows");
        for (n, (_, offset)) in whole.iter().enumerate() {
            let mut rows = Rows::from(*offset, n as i64 + 1);
            let mut rest = &text[*offset as usize..];
            let mut found = Vec::new();
            while let Some(cells) = rows.next(&mut rest).expect("a row") {
                found.push(cells);
            }
            let wanted: Vec<_> = whole[n + 1..]
                .iter()
                .map(|(cells, _)| cells.clone())
                .collect();
            assert_eq!(found, wanted, "from row {n}");
        }
    }

    #[test]
    fn rows_out_of_bounds_are_refused_with_their_number() {
        let long = format!("a,1\n\"{}", "x".repeat(ROW_BYTES_MAX + 1));
        let wide = format!("a,1\n{}\n", ",".repeat(COLUMNS_MAX + 1));
        for (text, why) in [
            (long.as_bytes(), "row 2 has more than 65536 bytes"),
            (wide.as_bytes(), "row 2 has more than 1000 columns"),
            (b"a\n\xff\n", "row 2 is not UTF-8"),
            (b"a\nb\0c\n", "row 2 has a NUL"),
        ] {
            let refused = read(text, 4_096).expect_err("no rows");
            assert!(refused.starts_with(why), "{refused}");
        }
    }

    #[test]
    fn a_header_is_distinguished_from_a_row() {
        let row = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert!(is_header(&row("name,n"), Some(&row("ann,1"))));
        assert!(!is_header(&row("ann,1"), Some(&row("bob,2"))));
        assert!(!is_header(&row("a,b"), Some(&row("a,b"))));
        assert!(!is_header(&row("a,a"), Some(&row("b,1"))));
        assert!(!is_header(&row("name,n"), None));
    }
}
