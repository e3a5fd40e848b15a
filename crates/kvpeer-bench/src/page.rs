//! The report as one HTML page that needs nothing else.

use plotters::prelude::*;

use crate::figures::{Figures, Measured};
use crate::order::Fetched;
use crate::plan::{LENS, Series};
use crate::report::{COLUMNS, Report};
use crate::stop::{Outcome, stop};

const SIZE: (u32, u32) = (860, 420);
const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;font-size:13px}td,th{border:1px solid #ccc;padding:3px 8px;text-align:left}\
.no{color:#b00}.yes{color:#070}svg{max-width:100%;height:auto}.suspect{background:#fee;padding:.5em 1em}";

pub(crate) fn page(report: &Report, figures: &Figures) -> Outcome<String> {
    let head: String = COLUMNS.iter().map(|name| format!("<th>{name}</th>")).collect();
    let rows: String = report
        .bars
        .iter()
        .map(|bar| {
            let class = if report.is_met(bar) { "yes" } else { "no" };
            let cells = report.row(bar).map(|cell| format!("<td>{}</td>", escaped(&cell))).concat();
            format!("<tr class=\"{class}\">{cells}</tr>\n")
        })
        .collect();
    let suspect = if report.suspicions.is_empty() {
        String::new()
    } else {
        let why = escaped(&report.suspicions.join("; "));
        format!("<p class=\"suspect\">This run does not count, its yardsticks are suspect: {why}.</p>")
    };
    let plots = [
        ("Throughput by block size (medians)", throughput(figures)),
        ("Latency of fetches of one 64 KiB block", latency(figures)),
        ("Core: microseconds of a whole cycle by keys", keys(&figures.core.micros)),
    ];
    let plots: String = plots
        .into_iter()
        .map(|(title, plot)| {
            let plot = plot.unwrap_or_else(|why| format!("<p>not drawn: {}</p>", escaped(&why.to_string())));
            format!("<h2>{title}</h2>\n{plot}\n")
        })
        .collect();
    Ok(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>kvpeer: benchmark</title>\
         <style>{STYLE}</style><h1>kvpeer: benchmark</h1><p>{}</p>{suspect}<p><b>{}</b></p>\
         <table><tr>{head}</tr>\n{rows}</table>\n{plots}</html>\n",
        escaped(&report.machine),
        report.summary(),
    ))
}

fn throughput(figures: &Figures) -> Outcome<String> {
    let lines = Series::ALL.map(|series| {
        let point = |len: &usize| Some(((*len >> 10) as f64, figures.rate(series, *len)?));
        (series.to_string(), LENS.iter().filter_map(point).collect())
    });
    draw(&lines, &Axes { x: "block, KiB", y: "GB/s" })
}

/// Which share of the fetches took at most so long.
fn latency(figures: &Figures) -> Outcome<String> {
    let curve = |name: &str, fetches: &[Fetched]| {
        let mut times: Vec<f64> = fetches.iter().map(|fetched| fetched.load * 1e6).collect();
        times.sort_by(f64::total_cmp);
        let all = times.len() as f64;
        let points = times.into_iter().enumerate().map(|(at, time)| (time, (at + 1) as f64 / all * 100.0));
        (name.to_owned(), points.collect())
    };
    let lines = [curve("nothing else under way", &figures.single), curve("beside 1 GiB", &figures.beside)];
    draw(&lines, &Axes { x: "at most µs", y: "% of fetches" })
}

fn keys(micros: &Measured<Vec<(u32, f64)>>) -> Outcome<String> {
    let micros = micros.as_ref().map_err(|why| stop(why.clone()))?;
    let points = micros.iter().map(|(keys, micros)| (f64::from(*keys), *micros)).collect();
    draw(&[("kvpeer".to_owned(), points)], &Axes { x: "keys", y: "µs" })
}

struct Axes {
    x: &'static str,
    y: &'static str,
}

type Line = (String, Vec<(f64, f64)>);

fn draw(lines: &[Line], axes: &Axes) -> Outcome<String> {
    let points = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    let most = |of: fn((f64, f64)) -> f64| points().map(of).fold(f64::NAN, f64::max);
    let least = |of: fn((f64, f64)) -> f64| points().map(of).fold(f64::NAN, f64::min);
    let (left, right, top) = (least(|point| point.0), most(|point| point.0), most(|point| point.1));
    if !(left > 0.0 && right >= left && top > 0.0) {
        return Err(stop("there are no figures"));
    }
    let (left, right) = (left * 0.9, right * 1.1);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut builder = ChartBuilder::on(&area);
        builder.margin(10).x_label_area_size(40).y_label_area_size(60);
        let mut chart = builder.build_cartesian_2d((left..right).log_scale(), 0.0..top * 1.05)?;
        chart.configure_mesh().x_desc(axes.x).y_desc(axes.y).draw()?;
        for (at, (name, points)) in lines.iter().enumerate() {
            let color = Palette99::pick(at).to_rgba();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color));
            if points.len() <= LENS.len() {
                let dots = points.iter().map(|point| Circle::new(*point, 3, color.filled()));
                chart.draw_series(dots)?;
            }
        }
        let mut labels = chart.configure_series_labels();
        labels.position(SeriesLabelPosition::LowerRight).background_style(WHITE.mix(0.8)).draw()?;
        area.present()?;
    }
    Ok(svg)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
