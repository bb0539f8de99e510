//! Rows as Parquet: one row group, Snappy, the columns of [`Row`] with one for each cause of bubbles, and what made it
//! in the file's own metadata.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;

use crate::error::{Error, Result};
use crate::metrics::BubbleCause;
use crate::sweep::Row;

/// A column: its name, and what of a row it has.
struct Column {
    name: String,
    values: Values,
}

/// Where the values of a column stand in a row.
enum Values {
    Whole(Box<dyn Fn(&Row) -> u64>),
    Real(fn(&Row) -> f64),
    Flag(fn(&Row) -> bool),
    Text(fn(&Row) -> &str),
    MaybeText(fn(&Row) -> Option<&str>),
}

/// All columns in their order.
fn columns() -> Vec<Column> {
    let column = |name: &str, values| Column { name: name.to_owned(), values };
    let whole = |name: &str, of: fn(&Row) -> u64| column(name, Values::Whole(Box::new(of)));
    let mut all = vec![
        whole("number", |row| row.number),
        whole("key", |row| row.key),
        column("batch", Values::Text(|row| &row.batch)),
        column("batch_ron", Values::Text(|row| &row.batch_ron)),
        column("device", Values::Text(|row| &row.device)),
        column("scheduler", Values::Text(|row| &row.scheduler)),
        column("strategy", Values::Text(|row| &row.strategy)),
        column("tile", Values::Text(|row| &row.tile)),
        column("split_constant", Values::Real(|row| row.split_constant)),
        whole("requests", |row| row.requests),
        whole("kv_tokens", |row| row.kv_tokens),
        column("source", Values::Text(|_| "simulated")),
        column("calibrated", Values::Flag(|row| row.calibrated)),
        whole("makespan_ns", |row| row.makespan_ns),
        whole("floor_ns", |row| row.floor_ns),
        whole("ctas", |row| row.ctas),
        whole("issued_bytes", |row| row.issued_bytes),
        whole("compulsory_bytes", |row| row.compulsory_bytes),
        whole("total_slot_ns", |row| row.total_slot_ns),
        whole("busy_slot_ns", |row| row.busy_slot_ns),
        column("refused", Values::MaybeText(|row| row.refused.as_deref())),
    ];
    for (at, cause) in BubbleCause::ALL.iter().enumerate() {
        let name = format!("bubble_{}_ns", cause.name().replace('-', "_"));
        let of = move |row: &Row| row.bubbles_ns.get(at).copied().unwrap_or(0);
        all.push(Column { name, values: Values::Whole(Box::new(of)) });
    }
    all
}

impl Column {
    fn schema(&self) -> String {
        let kind = match self.values {
            Values::Whole(_) => "REQUIRED INT64 ",
            Values::Real(_) => "REQUIRED DOUBLE ",
            Values::Flag(_) => "REQUIRED BOOLEAN ",
            Values::Text(_) => "REQUIRED BINARY ",
            Values::MaybeText(_) => "OPTIONAL BINARY ",
        };
        let text = matches!(self.values, Values::Text(_) | Values::MaybeText(_));
        let unsigned = matches!(self.values, Values::Whole(_)) && self.name == "key";
        let note = if text {
            " (UTF8)"
        } else if unsigned {
            " (UINT_64)"
        } else {
            ""
        };
        format!("{kind}{}{note};", self.name)
    }

    fn write(&self, rows: &[Row], column: &mut SerializedColumnWriter<'_>) -> parquet::errors::Result<()> {
        let bytes = |text: &str| ByteArray::from(text.as_bytes().to_vec());
        match &self.values {
            Values::Whole(of) => {
                let values: Vec<i64> = rows.iter().map(|row| of(row).cast_signed()).collect();
                column.typed::<Int64Type>().write_batch(&values, None, None)
            }
            Values::Real(of) => {
                let values: Vec<f64> = rows.iter().map(of).collect();
                column.typed::<DoubleType>().write_batch(&values, None, None)
            }
            Values::Flag(of) => {
                let values: Vec<bool> = rows.iter().map(of).collect();
                column.typed::<BoolType>().write_batch(&values, None, None)
            }
            Values::Text(of) => {
                let values: Vec<ByteArray> = rows.iter().map(|row| bytes(of(row))).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None)
            }
            Values::MaybeText(of) => {
                let values: Vec<ByteArray> = rows.iter().filter_map(|row| of(row).map(bytes)).collect();
                let levels: Vec<i16> = rows.iter().map(|row| i16::from(of(row).is_some())).collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)
            }
        }
        .map(|_written| ())
    }
}

/// Writes rows as Parquet, with `provenance` as pairs of the file's metadata.
///
/// # Errors
/// The writer's.
pub fn write_parquet(out: &mut (dyn Write + Send), rows: &[Row], provenance: &[(&str, String)]) -> std::io::Result<()> {
    write(out, rows, provenance).map_err(std::io::Error::other)
}

fn write(out: &mut (dyn Write + Send), rows: &[Row], provenance: &[(&str, String)]) -> parquet::errors::Result<()> {
    let columns = columns();
    let fields: Vec<String> = columns.iter().map(Column::schema).collect();
    let schema = Arc::new(parse_message_type(&format!("message sweep {{ {} }}", fields.join(" ")))?);
    let pairs = provenance.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("packscope {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(pairs.collect()));
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?;
    let mut group = file.next_row_group()?;
    for column in &columns {
        if let Some(mut writer) = group.next_column()? {
            column.write(rows, &mut writer)?;
            writer.close()?;
        }
    }
    group.close()?;
    file.close()?;
    Ok(())
}

/// Reads the rows of a file that [`write_parquet`] wrote.
///
/// # Errors
/// [`Error::Io`]; [`Error::Tensors`] for what is no Parquet, or lacks a column.
pub fn read_parquet(path: &Path) -> Result<Vec<Row>> {
    let file = File::open(path).map_err(Error::io("reading the sweep", path))?;
    let wrong = |problem: String| Error::Tensors { path: path.to_owned(), problem };
    let damaged = |error: parquet::errors::ParquetError| wrong(format!("the Parquet file is damaged or cut: {error}"));
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let mut rows = Vec::new();
    for record in reader.get_row_iter(None).map_err(damaged)? {
        let record = record.map_err(damaged)?;
        let fields: std::collections::HashMap<&str, &Field> =
            record.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
        rows.push(
            row_of(&fields).map_err(|column| wrong(format!("no sweep of packscope: column {column} is missing")))?,
        );
    }
    Ok(rows)
}

/// A row by the names of columns; the name of the one that is not there otherwise.
fn row_of(fields: &std::collections::HashMap<&str, &Field>) -> std::result::Result<Row, String> {
    let whole = |name: &str| match fields.get(name) {
        Some(Field::Long(value)) => Ok(value.cast_unsigned()),
        Some(Field::ULong(value)) => Ok(*value),
        _ => Err(name.to_owned()),
    };
    let text = |name: &str| match fields.get(name) {
        Some(Field::Str(value)) => Ok(value.clone()),
        _ => Err(name.to_owned()),
    };
    let bubbles = BubbleCause::ALL.iter().map(|cause| whole(&format!("bubble_{}_ns", cause.name().replace('-', "_"))));
    Ok(Row {
        number: whole("number")?,
        key: whole("key")?,
        batch: text("batch")?,
        batch_ron: text("batch_ron")?,
        device: text("device")?,
        scheduler: text("scheduler")?,
        strategy: text("strategy")?,
        tile: text("tile")?,
        split_constant: match fields.get("split_constant") {
            Some(Field::Double(value)) => *value,
            _ => return Err("split_constant".to_owned()),
        },
        requests: whole("requests")?,
        kv_tokens: whole("kv_tokens")?,
        calibrated: matches!(fields.get("calibrated"), Some(Field::Bool(true))),
        makespan_ns: whole("makespan_ns")?,
        floor_ns: whole("floor_ns")?,
        ctas: whole("ctas")?,
        issued_bytes: whole("issued_bytes")?,
        compulsory_bytes: whole("compulsory_bytes")?,
        total_slot_ns: whole("total_slot_ns")?,
        busy_slot_ns: whole("busy_slot_ns")?,
        bubbles_ns: bubbles.collect::<std::result::Result<_, _>>()?,
        refused: text("refused").ok(),
    })
}
