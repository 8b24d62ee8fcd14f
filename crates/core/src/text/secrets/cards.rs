//! Numbers of payment cards: how they are written, an issuer's prefix and length, and the check digit.

use crate::text::secrets::scanner::Scanner;

impl Scanner<'_> {
    /// The number of a card: in one piece, or in groups as on the card.
    pub(super) fn card(&self, at: usize) -> Option<usize> {
        const GROUPS: [&[usize]; 4] = [&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];
        if !self.is_first_digit(at) {
            return None;
        }
        let end = self.digits(at);
        if end - at > 4 {
            return (self.is_last_digit(end) && is_card(&self.bytes[at..end])).then_some(end);
        }
        let separator = *self.bytes.get(end).filter(|byte| b" -".contains(byte))?;
        if end - at < 4 || self.is_inside_groups(at, separator) {
            return None;
        }
        GROUPS.iter().find_map(|groups| {
            let end = self.end_of_groups(at, groups, separator)?;
            let digits: Vec<u8> =
                self.bytes[at..end].iter().copied().filter(u8::is_ascii_digit).collect();
            (self.is_last_digit(end) && is_card(&digits)).then_some(end)
        })
    }

    /// The end of digits in these groups, unless another one of four follows.
    fn end_of_groups(&self, at: usize, groups: &[usize], separator: u8) -> Option<usize> {
        let mut end = at;
        for (index, size) in groups.iter().enumerate() {
            if index > 0 {
                end += self.bytes.get(end).filter(|byte| **byte == separator).map(|_| 1)?;
            }
            let next = self.digits(end);
            if next - end != *size {
                return None;
            }
            end = next;
        }
        let follows = self.bytes.get(end) == Some(&separator);
        (!follows || self.digits(end + 1) - end - 1 != 4).then_some(end)
    }

    /// Whether a group of four with a digit stands before, as in an IBAN.
    fn is_inside_groups(&self, at: usize, separator: u8) -> bool {
        if self.before(at, 1) != Some(separator) {
            return false;
        }
        let group = self.bytes[self.done..at - 1]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_alphanumeric());
        let (size, digits) = group.take(5).fold((0, 0), |(size, digits), byte| {
            (size + 1, digits + usize::from(byte.is_ascii_digit()))
        });
        size == 4 && digits > 0
    }

    /// Whether a number begins here: none with a sign before it, and no decimals.
    fn is_first_digit(&self, at: usize) -> bool {
        match self.before(at, 1) {
            Some(b'.' | b',') => !self.before(at, 2).is_some_and(|byte| byte.is_ascii_digit()),
            Some(b'n' | b'r' | b't') => self.before(at, 2) == Some(b'\\'),
            Some(byte) => !byte.is_ascii_alphanumeric() && byte != b'_' && byte != b'+',
            None => true,
        }
    }

    /// Whether a number ends here.
    fn is_last_digit(&self, end: usize) -> bool {
        match self.bytes.get(end) {
            Some(b'.' | b',') => !self.bytes.get(end + 1).is_some_and(u8::is_ascii_digit),
            _ => !self.is_in_word(end),
        }
    }
}

/// Whether digits are the number of a card: an issuer's prefix with one of its lengths, and the check digit.
fn is_card(digits: &[u8]) -> bool {
    let prefix = |length: usize| {
        digits
            .iter()
            .take(length)
            .fold(0, |number: u32, digit| number * 10 + u32::from(digit - b'0'))
    };
    let lengths: &[usize] = match (prefix(1), prefix(2), prefix(3), prefix(4)) {
        (4, ..) => &[13, 16, 19],
        (_, 51..=55, ..) | (_, _, _, 2221..=2720) => &[16],
        (_, 34 | 37, ..) => &[15],
        (_, 36 | 38 | 39, ..) | (_, _, 300..=305, _) => &[14],
        (_, 62 | 65, ..) | (_, _, 644..=649, _) | (_, _, _, 6011 | 3528..=3589) => &[16, 19],
        _ => &[],
    };
    lengths.contains(&digits.len()) && has_check_digit(digits)
}

/// Luhn's sum.
fn has_check_digit(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (u32::from(digit - b'0'), place % 2) {
            (digit, 0) => digit,
            (digit, _) => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}
