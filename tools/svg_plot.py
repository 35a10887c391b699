"""Line plots as SVG, the same text from the same numbers: what tools/plot_cache and tools/plot_hybrid draw with."""

COLOURS = ["#2563a8", "#c2571a", "#2e7d4f", "#8a3fa0", "#b3261e", "#6b6b6b", "#0f8b8d", "#9a7b00", "#1a1a1a"]
WIDTH, HEIGHT = 350, 300  # of the area of a plot
LEFT, TOP, GAP = 56, 64, 76


def groups(series):
    """Lines with the same curve are one: to the eye, within a thousandth of the height."""
    found = []
    for name, values in series.items():
        for names, known in found:
            if all(abs(a - b) < 0.001 for a, b in zip(values, known)):
                names.append(name)
                break
        else:
            found.append(([name], values))
    return found


def plot(title, labels, axis, series, left, colours, limit=None):
    """series: {name: values from 0 to 1, one for each label}. limit: (value, text) of a dashed line."""
    def x(i):
        return left + WIDTH * i / (len(labels) - 1)

    def y(rate):
        return TOP + HEIGHT * (1 - rate)

    parts = [f'<text x="{left}" y="{TOP - 14}" class="title">{title}</text>']
    for percent in range(0, 101, 20):
        parts += [f'<line x1="{left}" y1="{y(percent / 100):.1f}" x2="{left + WIDTH}" y2="{y(percent / 100):.1f}" class="grid"/>',
                  f'<text x="{left - 8}" y="{y(percent / 100) + 4:.1f}" text-anchor="end">{percent} %</text>']
    for i, label in enumerate(labels):
        parts.append(f'<text x="{x(i):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{left + WIDTH / 2:.1f}" y="{TOP + HEIGHT + 38}" text-anchor="middle">{axis}</text>')
    if limit:
        parts += [f'<line x1="{left}" y1="{y(limit[0]):.1f}" x2="{left + WIDTH}" y2="{y(limit[0]):.1f}" class="limit"/>',
                  f'<text x="{left + 4}" y="{y(limit[0]) + 14:.1f}">{limit[1]}</text>']
    legend = []
    for names, values in groups(series):
        colour = colours[names[0]]
        points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(values))
        parts.append(f'<polyline points="{points}" stroke="{colour}" class="line"/>')
        parts += [f'<circle cx="{x(i):.1f}" cy="{y(v):.1f}" r="2.5" fill="{colour}"/>' for i, v in enumerate(values)]
        legend.append((colour, ", ".join(names)))
    for i, (colour, names) in enumerate(legend):
        at = TOP + HEIGHT + 62 + 18 * i
        parts += [f'<line x1="{left}" y1="{at - 4}" x2="{left + 24}" y2="{at - 4}" stroke="{colour}" class="line"/>',
                  f'<text x="{left + 32}" y="{at}">{names}</text>']
    return parts, len(legend)


def picture(title, plots, names):
    """plots: (title, labels, axis, series) or the same with a limit, side by side; names: of all series."""
    colours = dict(zip(names, COLOURS[:len(names)], strict=True))
    drawn, rows = [], 0
    for i, (heading, labels, axis, series, *limit) in enumerate(plots):
        parts, count = plot(heading, labels, axis, series, LEFT + i * (WIDTH + GAP), colours, *limit)
        drawn += parts
        rows = max(rows, count)
    width = LEFT + len(plots) * (WIDTH + GAP) - GAP + 24
    height = TOP + HEIGHT + 62 + 18 * rows
    style = ("text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}.grid{stroke:#ddd}"
             ".limit{stroke:#888;stroke-dasharray:5 4}.line{fill:none;stroke-width:2}")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{style}</style>", f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20">{title}</text>', *drawn, "</svg>", ""])
