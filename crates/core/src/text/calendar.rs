//! Times that are counted from a day: the week before it, the month after it, three years ago. Weeks begin on
//! Monday.

use chrono::{Datelike, Days, Months, NaiveDate};

/// A time by its distance from a day: so many days, weeks or months after it, or before it if negative. What
/// a speaker calls "three weeks ago" may lie some days beside that: it is about then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    Day(i64),
    Week(i64),
    Weekend(i64),
    Month(i64),
    Year(i64),
    AboutWeek(i64),
    AboutMonth(i64),
    AboutYear(i64),
}

impl Distance {
    /// The day by which the time is named, counted from a day: its first one, or the middle of "about".
    pub(crate) fn named_by(self, from: NaiveDate) -> Option<NaiveDate> {
        let monday = |weeks: i64| {
            add_days(from, 7 * weeks - i64::from(from.weekday().num_days_from_monday()))
        };
        match self {
            Self::Day(days) => add_days(from, days),
            Self::Week(weeks) => monday(weeks),
            Self::Weekend(weeks) => add_days(monday(weeks)?, 5),
            Self::AboutWeek(weeks) => add_days(from, 7 * weeks),
            Self::Month(months) | Self::AboutMonth(months) => add_months(from.with_day(1)?, months),
            Self::Year(years) | Self::AboutYear(years) => {
                let year = from.year().checked_add(i32::try_from(years).ok()?)?;
                NaiveDate::from_ymd_opt(year, 1, 1)
            }
        }
    }

    /// The first and the last day that may be meant, counted from a day.
    pub(crate) fn days(self, from: NaiveDate) -> Option<(NaiveDate, NaiveDate)> {
        let named_by = self.named_by(from)?;
        let first = match self {
            Self::AboutWeek(_) => add_days(named_by, -4)?,
            Self::AboutMonth(_) => add_months(named_by, -1)?,
            Self::AboutYear(_) => add_months(named_by, -6)?,
            _ => named_by,
        };
        let last = match self {
            Self::Day(_) => named_by,
            Self::Week(_) => add_days(named_by, 6)?,
            Self::Weekend(_) => named_by.succ_opt()?,
            Self::Month(_) => add_months(named_by, 1)?.pred_opt()?,
            Self::Year(_) => add_months(named_by, 12)?.pred_opt()?,
            Self::AboutWeek(_) => add_days(named_by, 4)?,
            Self::AboutMonth(_) => add_months(named_by, 2)?,
            Self::AboutYear(_) => add_months(named_by, 18)?.pred_opt()?,
        };
        Some((first, last))
    }

    /// The time in digits, counted from a day: `2024-05-04`, `2024-04-29 – 2024-05-05`, `2024-05`, `2024`.
    pub(crate) fn in_digits(self, from: NaiveDate) -> Option<String> {
        let named_by = self.named_by(from)?;
        Some(match self {
            Self::Day(_) => named_by.to_string(),
            Self::Week(_) | Self::Weekend(_) => format!("{named_by} – {}", self.days(from)?.1),
            Self::AboutWeek(_) => format!("~{named_by}"),
            Self::Month(_) | Self::AboutMonth(_) => named_by.format("%Y-%m").to_string(),
            Self::Year(_) | Self::AboutYear(_) => named_by.year().to_string(),
        })
    }
}

pub(crate) fn add_days(date: NaiveDate, days: i64) -> Option<NaiveDate> {
    let count = Days::new(days.unsigned_abs());
    if days < 0 { date.checked_sub_days(count) } else { date.checked_add_days(count) }
}

fn add_months(date: NaiveDate, months: i64) -> Option<NaiveDate> {
    let count = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
    if months < 0 { date.checked_sub_months(count) } else { date.checked_add_months(count) }
}

#[cfg(test)]
mod tests {
    use super::Distance::*;
    use super::*;

    #[test]
    fn times_are_counted_over_ends_of_months_and_years() {
        for (from, distance, first, last, in_digits) in [
            ("2024-02-28", Day(1), "2024-02-29", "2024-02-29", "2024-02-29"),
            ("2023-02-28", Day(1), "2023-03-01", "2023-03-01", "2023-03-01"),
            ("2024-12-31", Day(2), "2025-01-02", "2025-01-02", "2025-01-02"),
            // A Sunday ends its week, a Monday begins it.
            ("2024-03-03", Week(0), "2024-02-26", "2024-03-03", "2024-02-26 – 2024-03-03"),
            ("2024-03-03", Week(1), "2024-03-04", "2024-03-10", "2024-03-04 – 2024-03-10"),
            ("2024-03-04", Week(-1), "2024-02-26", "2024-03-03", "2024-02-26 – 2024-03-03"),
            ("2025-01-01", Week(-1), "2024-12-23", "2024-12-29", "2024-12-23 – 2024-12-29"),
            ("2024-03-04", Weekend(-1), "2024-03-02", "2024-03-03", "2024-03-02 – 2024-03-03"),
            // The month before a 31st has no such day.
            ("2024-03-31", Month(-1), "2024-02-01", "2024-02-29", "2024-02"),
            ("2023-03-31", Month(-1), "2023-02-01", "2023-02-28", "2023-02"),
            ("2024-01-31", Month(1), "2024-02-01", "2024-02-29", "2024-02"),
            ("2024-12-31", Month(1), "2025-01-01", "2025-01-31", "2025-01"),
            ("2024-02-29", Year(1), "2025-01-01", "2025-12-31", "2025"),
            ("2024-03-01", AboutWeek(-1), "2024-02-19", "2024-02-27", "~2024-02-23"),
            ("2024-03-31", AboutMonth(-1), "2024-01-01", "2024-04-01", "2024-02"),
            ("2024-02-29", AboutYear(-3), "2020-07-01", "2022-06-30", "2021"),
        ] {
            let from: NaiveDate = from.parse().unwrap();
            let days = [first, last].map(|day| day.parse().unwrap());
            assert_eq!(distance.days(from), Some((days[0], days[1])), "{from} {distance:?}");
            assert_eq!(distance.in_digits(from).as_deref(), Some(in_digits), "{from} {distance:?}");
        }
    }

    #[test]
    fn there_is_no_time_beyond_the_calendar() {
        for distance in [Day(1), Week(1), Weekend(1), Month(1), Year(1), AboutYear(1)] {
            assert_eq!(distance.days(NaiveDate::MAX), None, "{distance:?}");
        }
        for distance in [Day(-1), Week(-1), Month(-1), Year(-1), AboutWeek(-1), AboutMonth(-1)] {
            assert_eq!(distance.days(NaiveDate::MIN), None, "{distance:?}");
        }
    }
}
