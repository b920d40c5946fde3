
for (const box of document.querySelectorAll('[data-table]')) {
  const body = box.querySelector('tbody'), rows = [...body.rows];
  if (rows.length > 12) {
    box.insertAdjacentHTML('afterbegin', '<div class="find"><label>Find a class '
      + '<input type="search" autocomplete="off"/></label><span role="status"></span></div>');
    const find = box.querySelector('.find');
    const input = find.querySelector('input'), said = find.querySelector('[role=status]');
    const texts = rows.map(row => row.cells[0].textContent.toLowerCase());
    input.addEventListener('input', () => {
      const wanted = input.value.toLowerCase().trim();
      let found = 0;
      rows.forEach((row, i) => { row.hidden = !texts[i].includes(wanted); found += !row.hidden; });
      said.textContent = wanted ? found.toLocaleString('en') + ' found' : '';
    });
  }
  const heads = [...box.querySelectorAll('th[scope=col]')];
  heads[box.dataset.table].setAttribute('aria-sort', 'descending');
  heads.forEach(head => {
    const column = head.cellIndex, numeric = head.className === 'n';
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const before = head.getAttribute('aria-sort');
      const order = before ? (before === 'descending' ? 'ascending' : 'descending')
                           : (numeric ? 'descending' : 'ascending');
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', order);
      const value = row => {
        const text = row.cells[column].textContent;
        return numeric ? Number(text.replaceAll(',', '')) : text;
      };
      const compare = numeric ? (a, b) => a[0] - b[0]
        : (a, b) => a[0].localeCompare(b[0], 'en', {numeric: true});
      const sorted = rows.map(row => [value(row), row]).sort(compare);
      if (order === 'descending') sorted.reverse();
      body.append(...sorted.map(pair => pair[1]));
    });
  });
}
