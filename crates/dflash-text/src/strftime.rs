//! `strftime_now` of chat templates: a moment written out by a format.

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

struct Moment {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    yearday: i64,
    second: i64,
}

/// Writes `unix` seconds, in UTC, by `format`; `None` for a directive that is not built.
pub fn strftime(format: &str, unix: i64) -> Option<String> {
    let moment = Moment::at(unix);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            '-' => out += moment.directive(chars.next()?)?.trim_start_matches('0'),
            directive => out += &moment.directive(directive)?,
        }
    }
    Some(out)
}

impl Moment {
    /// The civil date of a day count (Howard Hinnant's `civil_from_days`).
    fn at(unix: i64) -> Self {
        let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let weekday = (days + 4).rem_euclid(7) as usize;
        Self { year, month: month as usize, day, weekday, yearday: yearday(year, month, day), second }
    }

    fn directive(&self, name: char) -> Option<String> {
        let hour = self.second / 3600;
        let (minute, second) = (self.second / 60 % 60, self.second % 60);
        Some(match name {
            'Y' => format!("{}", self.year),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'B' => MONTHS[self.month - 1].into(),
            'b' | 'h' => MONTHS[self.month - 1][..3].into(),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'j' => format!("{:03}", self.yearday),
            'A' => DAYS[self.weekday].into(),
            'a' => DAYS[self.weekday][..3].into(),
            'w' => self.weekday.to_string(),
            'H' => format!("{hour:02}"),
            'I' => format!("{:02}", (hour + 11) % 12 + 1),
            'p' => if hour < 12 { "AM" } else { "PM" }.into(),
            'M' => format!("{minute:02}"),
            'S' => format!("{second:02}"),
            'F' => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            '%' => "%".into(),
            _ => return None,
        })
    }
}

fn yearday(year: i64, month: i64, day: i64) -> i64 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let before = (275 * month / 9) - ((month + 9) / 12) * if leap { 1 } else { 2 };
    before + day - 30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(strftime("%d %b %Y, %A %H:%M:%S %j", 0).unwrap(), "01 Jan 1970, Thursday 00:00:00 001");
        assert_eq!(strftime("%Y-%m-%d %I%p %a", 1_709_210_096).unwrap(), "2024-02-29 12PM Thu");
        assert_eq!(strftime("%j %y %B %-d", 1_735_603_200).unwrap(), "366 24 December 31");
        assert_eq!(strftime("%F %T 100%%", -1).unwrap(), "1969-12-31 23:59:59 100%");
        assert_eq!((strftime("%Q", 0), strftime("%", 0)), (None, None));
    }
}
