{
  const page = JSON.parse(document.getElementById("data").textContent);
  const chooser = document.querySelector("select");
  const show = (index) => {
    document.querySelector("h1").textContent = page.sentences[index].text;
    drawAttention(document.querySelector("main"), page.sentences[index], page.show);
  };
  page.sentences.forEach(({ text }, index) => chooser.add(new Option(text, index)));
  chooser.hidden = page.sentences.length === 1;
  chooser.addEventListener("change", () => show(chooser.value));
  show(0);
}
