/// Cells under heads, for people.
pub struct Grid {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Without rows.
    pub fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for every head.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Columns without any number are left out.
    pub fn without_empty_columns(mut self) -> Self {
        for column in (0..self.heads.len()).rev() {
            if self.rows.iter().all(|row| row[column].is_empty()) {
                self.heads.remove(column);
                self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        self
    }

    /// Aligned for a terminal: the first column to the left, the others to the right.
    pub fn text(&self) -> String {
        let heads: Vec<String> = self.heads.iter().map(|&head| head.to_owned()).collect();
        let lines: Vec<&Vec<String>> = [&heads].into_iter().chain(&self.rows).collect();
        let widths: Vec<usize> = (0..heads.len())
            .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let line = |cells: &Vec<String>| {
            let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
            cells.collect::<String>().trim_end().to_owned() + "\n"
        };
        lines.into_iter().map(line).collect()
    }

    /// For a document. A bar in a cell does not end it.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let heads = line(self.heads.iter().map(|&head| head.to_owned()).collect());
        let rule = line(self.heads.iter().map(|_| "---".to_owned()).collect());
        let escaped = |row: &Vec<String>| row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let rows: String = self.rows.iter().map(|row| line(escaped(row))).collect();
        heads + &rule + &rows
    }
}

/// A number with so many decimals. A little less than nothing is nothing.
pub fn decimal(number: f64, digits: usize) -> String {
    let text = |number: f64| format!("{number:.digits$}");
    if text(number) == text(-0.0) { text(0.0) } else { text(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_sign() {
        assert_eq!([-0.004, 0.004, -0.006].map(|number| decimal(number, 2)), ["0.00", "0.00", "-0.01"]);
    }

    fn grid() -> Grid {
        let mut grid = Grid::new(&["name", "empty", "ms"]);
        grid.row(vec!["a|b".into(), String::new(), "10.5".into()]);
        grid.row(vec!["longer".into(), String::new(), "1.0".into()]);
        grid.without_empty_columns()
    }

    #[test]
    fn for_a_terminal() {
        assert_eq!(grid().text(), "name      ms\na|b     10.5\nlonger   1.0\n");
    }

    #[test]
    fn for_a_document() {
        assert_eq!(grid().markdown(), "| name | ms |\n| --- | --- |\n| a\\|b | 10.5 |\n| longer | 1.0 |\n");
    }
}
