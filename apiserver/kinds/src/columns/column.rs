//! A column of a Table.

/// A column of a Table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// OpenAPI type of the cells: `string`, `integer`, `boolean`, `date`, ...
    pub cell_type: String,
    /// OpenAPI format of the cells, or `""`; `name` marks the column of the object's name.
    pub format: String,
    /// Upstream's text, most often the documentation of the field shown.
    pub description: String,
    /// 0 is always shown, higher only in wide output.
    pub priority: i32,
}
