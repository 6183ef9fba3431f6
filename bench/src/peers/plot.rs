//! Bar charts as SVG, legible on light and dark backgrounds.

use std::fmt::Write as _;

/// A chart.
pub struct Chart {
    /// Title with the unit.
    pub title: String,
    /// How bars are scaled.
    pub scale: Scale,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

/// How bars are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From 0.
    Linear,
    /// In decades, from a tenth of the shortest bar.
    Logarithmic,
}

/// A bar.
pub struct Bar {
    /// Text before the bar.
    pub label: String,
    /// Its value; not drawn unless finite.
    pub value: f64,
    /// Text after the bar.
    pub text: String,
    /// Whether the bar has the colour of Kalends.
    pub is_highlighted: bool,
}

const WIDTH: f64 = 860.0;
const LABEL_WIDTH: f64 = 215.0;
const TEXT_WIDTH: f64 = 185.0;
const LINE: f64 = 24.0;
const TITLE: f64 = 44.0;

/// Charts below each other.
pub fn svg(charts: &[Chart]) -> Result<String, std::fmt::Error> {
    let height: f64 =
        charts.iter().map(|chart| TITLE + LINE * chart.bars.len() as f64).sum::<f64>() + 16.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<style>\n\
         text {{ fill: #24292f }} .title {{ font-weight: 600 }} .other {{ fill: #8c959f }} \
         .ours {{ fill: #0969da }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} .other {{ fill: #6e7681 }} \
         .ours {{ fill: #4493f8 }} }}\n</style>\n"
    );
    let mut y = 0.0;
    for chart in charts {
        writeln!(
            svg,
            "<text class=\"title\" x=\"8\" y=\"{}\">{}</text>",
            y + 28.0,
            escape(&chart.title)
        )?;
        y += TITLE;
        for bar in &chart.bars {
            let length = chart.share(bar.value) * (WIDTH - LABEL_WIDTH - TEXT_WIDTH);
            let class = if bar.is_highlighted { "ours" } else { "other" };
            writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
                 <rect class=\"{class}\" x=\"{LABEL_WIDTH}\" y=\"{}\" width=\"{length:.1}\" height=\"16\" rx=\"2\"/>\
                 <text x=\"{:.1}\" y=\"{}\">{}</text>",
                LABEL_WIDTH - 8.0,
                y + 13.0,
                escape(&bar.label),
                y,
                LABEL_WIDTH + length + 6.0,
                y + 13.0,
                escape(&bar.text),
            )?;
            y += LINE;
        }
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

impl Chart {
    /// Length of a bar from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let values = || self.bars.iter().map(|bar| bar.value).filter(|value| value.is_finite());
        let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
        let share = match self.scale {
            Scale::Linear => value / most,
            Scale::Logarithmic => (value * 10.0 / least).log10() / (most * 10.0 / least).log10(),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
