// Marks the tables that are wider than the page, and draws every chart into its place, one after the other, so that the page can be read meanwhile.
// When all are done, <html data-drawn="N"> says how many succeeded.
(async () => {
  const looks = read(document.getElementById("looks"));
  const widths = read(document.getElementById("widths"));
  const options = {
    mode: "vega-lite",
    renderer: "svg", // its text takes the colour of the page
    actions: false,
    config: looks.page,
    tooltip: { disableDefaultStyle: true },
  };

  for (const frame of document.querySelectorAll(".frame")) markWhatGoesOn(frame);

  let drawn = 0;
  for (const figure of document.querySelectorAll("figure")) {
    const places = [...figure.querySelectorAll(".chart")];
    const specs = places.map((place) => read(place.querySelector("script")));
    for (const [index, place] of places.entries()) {
      drawn += await draw(place, specs[index]);
      await new Promise((next) => setTimeout(next));
    }
    offerFiles(figure, specs);
  }
  document.documentElement.dataset.drawn = drawn;

  // A shadow where columns are hidden at the right, and a sentence below a table that is wider than its frame.
  function markWhatGoesOn(frame) {
    const wide = frame.querySelector(".wide");
    const hint = frame.nextElementSibling;
    const mark = () => {
      const hidden = wide.scrollWidth - wide.clientWidth;
      hint.hidden = hidden < 2;
      frame.classList.toggle("goes-on", hidden - wide.scrollLeft >= 2);
    };
    wide.addEventListener("scroll", mark, { passive: true });
    new ResizeObserver(mark).observe(wide);
    mark();
  }

  function read(script) {
    return JSON.parse(script.textContent);
  }

  async function draw(place, spec) {
    try {
      await vegaEmbed(place, spec, options);
      return 1;
    } catch (error) {
      place.textContent = `This chart could not be drawn: ${error.message ?? error}`;
      place.classList.add("failed");
      return 0;
    } finally {
      place.style.minHeight = "";
    }
  }

  function offerFiles(figure, specs) {
    const save = figure.querySelector(".save");
    for (const button of save.querySelectorAll("button")) {
      button.onclick = () => saveAs(button.textContent.toLowerCase(), figure, specs);
    }
    save.hidden = false;
  }

  async function saveAs(form, figure, specs) {
    const title = figure.querySelector("figcaption span").textContent;
    const legend = { ...looks.file.legend, columns: Number(figure.dataset.columns) };
    const unseen = document.createElement("div");
    const config = { ...looks.file, legend };
    const { view } = await vegaEmbed(unseen, wholePicture(title, specs), { ...options, config });
    const link = document.createElement("a");
    link.href = await view.toImageURL(form, 2);
    link.download = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}.${form}`;
    link.click();
  }

  // The panels together, on white, with the title and the legend that the page writes itself.
  function wholePicture(title, specs) {
    if (specs.length === 1) return { ...specs[0], title, width: widths.one };
    return {
      title,
      columns: 2,
      params: [{ name: "width", value: widths.several }],
      datasets: Object.assign({}, ...specs.map((spec) => spec.datasets)),
      concat: specs.map(({ $schema, datasets, ...view }) => ({ ...view, width: widths.several })),
      resolve: { scale: { color: "shared", shape: "shared", strokeDash: "shared" } },
    };
  }
})();
