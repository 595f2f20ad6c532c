// SPDX-License-Identifier: Apache-2.0
// The script of the HTML report: numbers, summary, bars, table, processes. The charts are in
// html_charts.hpp.
#pragma once

#include <vecdet/detail/target.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

inline constexpr char html_script[] = R"html(
const $=id=>document.getElementById(id);
const esc=s=>String(s).replace(/[&<>"']/g,c=>({'&':'&amp;','<':'&lt;','>':'&gt;','"':'&quot;',"'":'&#39;'}[c]));
function digits(v){const a=Math.abs(v);return v.toFixed(a<9.995?2:a<99.95?1:0)}
function time(ns){if(ns==null||!isFinite(ns))return '–';
  let v=ns;for(const u of ['ns','µs','ms','s']){if(Math.abs(v)<999.5||u==='s')return (v===0?'0':digits(v))+' '+u;v/=1000}}
function big(v){return v>=1e9?digits(v/1e9)+' G':v>=1e6?digits(v/1e6)+' M':v>=1e4?digits(v/1e3)+' k':String(v)}
const rate=v=>v>0?(v<.005?'<0.01':digits(v)):'–';
const percent=v=>(100*v).toFixed(v>=.0995?0:1)+' %';
const sum=(a,f)=>a.reduce((s,x)=>s+f(x),0);
/* the first part of a name is what it does, the rest on what */
function split(e){const f=e.function||e.name;return [f,e.name.startsWith(f)?e.name.slice(f.length):'']}
function label(e){const [a,b]=split(e);return esc(a)+'<i>'+esc(b).replace(/\//g,'/<wbr>')+'</i>'}
const E=PROFILE.entries.map((e,i)=>({...e,i})).sort((a,b)=>b.self_ns-a.self_ns);
const M=PROFILE.machine;
let selected=E.length?E[0]:null;

/* theme */
function theme(dark){document.documentElement.dataset.theme=dark?'dark':'light';$('theme').textContent=dark?'Light':'Dark'}
theme(window.matchMedia&&matchMedia('(prefers-color-scheme: dark)').matches);
$('theme').onclick=()=>theme(document.documentElement.dataset.theme!=='dark');

/* hints */
document.addEventListener('mousemove',ev=>{const t=ev.target.closest&&ev.target.closest('[data-tip]');
  const tip=$('tip');if(!t){tip.style.display='none';return}
  tip.textContent=t.dataset.tip;tip.style.display='block';
  tip.style.left=Math.min(ev.clientX+14,innerWidth-tip.offsetWidth-8)+'px';
  tip.style.top=Math.min(ev.clientY+14,innerHeight-tip.offsetHeight-8)+'px'});

/* summary */
(function(){
  const P=PROFILE.processes,first=P[0]||{};
  const commands=[...new Set(P.map(p=>p.command).filter(Boolean))].join(', ');
  $('title').textContent=BASELINE?NAME+' against '+BASELINE_NAME:commands||NAME;
  document.title='vecdet profile: '+$('title').textContent;
  const parts=[];
  if(first.started_unix_ns>0)parts.push(new Date(first.started_unix_ns/1e6).toISOString().replace('T',' ').slice(0,19)+' UTC');
  const hosts=[...new Set(P.map(p=>p.host).filter(Boolean))];if(hosts.length)parts.push(hosts.join(', '));
  if(M.processor)parts.push(M.processor+(M.threads?', '+M.threads+' threads':''));
  if(P.length>1)parts.push(P.length+' processes');
  $('subtitle').textContent=parts.join('  ·  ');
  $('notes').innerHTML=PROFILE.warnings.map(w=>'<p class="note">'+esc(w)+'</p>').join('');
  const scopes=sum(E,e=>e.count),cost=scopes*(first.overhead_per_scope_ns||0);
  const wall=Math.max(0,...P.map(p=>p.wall_ns));
  const bytes=sum(E,e=>e.bytes),flops=sum(E,e=>e.flops);
  const cards=[[time(PROFILE.whole_ns),'in all scopes']];
  if(wall>0)cards.push([time(wall),'by the clock']);
  cards.push([big(scopes),scopes===1?'scope':'scopes'],[big(E.length),E.length===1?'problem':'problems']);
  if(bytes>0)cards.push([digits(bytes/1e9)+' GB','moved by kernels']);
  if(flops>0)cards.push([digits(flops/1e9)+' G','operations']);
  if(cost>0)cards.push([time(cost),'profiler, taken off']);
  $('cards').innerHTML=cards.map(c=>'<div class="card"><b class="num">'+esc(c[0])+'</b><span>'+esc(c[1])+'</span></div>').join('');
})();

/* bars by share */
function grouped(){
  if(!$('group').value)return E;
  const groups=new Map();
  for(const e of E){const f=e.function||e.name,g=groups.get(f);
    if(!g)groups.set(f,{...e,name:f,problems:1});else{g.self_ns+=e.self_ns;g.inclusive_ns+=e.inclusive_ns;g.problems++}}
  const all=[...groups.values()].sort((a,b)=>b.self_ns-a.self_ns);
  for(const g of all)if(g.problems>1)g.name=g.function+' '+g.problems+' problems';
  return all;
}
function bars(){
  const all=grouped(),most=12,top=all.slice(0,most),rest=all.slice(most),whole=PROFILE.whole_ns||1;
  const longest=Math.max(...top.map(e=>Math.max(e.self_ns,e.inclusive_ns)),sum(rest,e=>e.self_ns),1);
  const width=v=>(100*v/longest).toFixed(2)+'%';
  let html=top.map(e=>'<div class="bar'+(e===selected?' on':'')+'" data-i="'+e.i+'" tabindex="0" role="button" data-tip="'+
    esc(e.name+': '+time(e.self_ns)+' itself, '+time(e.inclusive_ns)+' with what is inside')+'"><span class="name">'+label(e)+
    '</span><span class="track"><span class="fill all" style="width:'+width(e.inclusive_ns)+'"></span><span class="fill" style="width:'+width(e.self_ns)+
    '"></span></span><span class="v num">'+percent(e.self_ns/whole)+'</span><span class="v num soft">'+time(e.self_ns)+'</span></div>').join('');
  if(rest.length){const r=sum(rest,e=>e.self_ns);
    html+='<div class="bar rest"><span class="name">'+rest.length+' more</span><span class="track"><span class="fill" style="width:'+width(r)+
    '"></span></span><span class="v num">'+percent(r/whole)+'</span><span class="v num">'+time(r)+'</span></div>'}
  $('bars').innerHTML=html?html+'<div class="key"><span><i style="background:var(--bar)"></i>itself</span><span><i style="background:var(--bar2)"></i>with nested scopes</span></div>':
    '<p class="soft">No scope has ended.</p>';
}

/* table */
const columns=[['problem','name'],
  ['share','share',e=>percent(e.share)],['self','self_ns',e=>time(e.self_ns)],
  ['total','total_ns',e=>time(e.total_ns)],['calls','count',e=>big(e.count)],['mean','mean_ns',e=>time(e.mean_ns)],
  ['p50','p50_ns',e=>time(e.p50_ns)],['p99','p99_ns',e=>time(e.p99_ns)],['max','max_ns',e=>time(e.max_ns)],
  ['GB/s','gigabytes_per_second',e=>rate(e.gigabytes_per_second)],['GFLOP/s','gigaflops_per_second',e=>rate(e.gigaflops_per_second)],
  ['of bound','roofline_percent',e=>e.roofline_percent>0?'<span data-tip="of the '+e.roofline_bound+' bound"><i class="dotmark" style="background:var(--'+e.roofline_bound+')"></i>'+e.roofline_percent.toFixed(0)+' %</span>':'–'],
  ['callers','concurrency',e=>e.concurrency.toFixed(1)]];
let order={key:'self_ns',down:true},shownRows=50;
function table(){
  const q=$('filter').value.toLowerCase(),rows=E.filter(e=>e.name.toLowerCase().includes(q));
  const k=order.key;rows.sort((a,b)=>(k==='name'?a.name.localeCompare(b.name):a[k]-b[k])*(order.down?-1:1));
  const some=rows.slice(0,shownRows);
  $('table').innerHTML='<thead><tr>'+columns.map((c,i)=>'<th data-k="'+c[1]+'"'+(i?' class="n"':'')+
    (k===c[1]?' aria-sort="'+(order.down?'descending':'ascending')+'"':'')+' tabindex="0">'+c[0]+'</th>').join('')+'</tr></thead><tbody>'+
    some.map(e=>'<tr data-i="'+e.i+'"'+(e===selected?' class="on"':'')+'>'+columns.map((c,i)=>i?'<td class="n">'+c[2](e)+'</td>':
    '<td class="name" data-tip="'+esc(e.name)+'">'+label(e)+(e.source!=='vecdet'?' <span class="tag">'+esc(e.source)+'</span>':'')+'</td>').join('')+'</tr>').join('')+'</tbody>';
  $('shown').innerHTML=rows.length>some.length?some.length+' of '+rows.length+' <button type="button" id="more">Show all</button>':
    rows.length===E.length?'':rows.length+' of '+E.length;
  if($('more'))$('more').onclick=()=>{shownRows=Infinity;table()};
}
$('group').onchange=bars;
$('filter').oninput=table;
$('table').addEventListener('click',ev=>{const th=ev.target.closest('th');
  if(th){const k=th.dataset.k;order={key:k,down:order.key===k?!order.down:k!=='name'};table()}});

/* processes */
(function(){
  const P=PROFILE.processes;
  $('processes').innerHTML='<thead><tr><th>process</th><th>host</th><th class="n">recorded</th><th class="n">computing</th><th class="n">waiting</th><th class="n">callers</th>'+
    '<th class="n">profiler, per scope</th><th class="n">scopes lost</th><th class="n">clock went back</th></tr></thead><tbody>'+
    P.map(p=>'<tr><td>'+(p.rank>=0?'rank '+p.rank+': ':'')+esc(p.command)+' '+(p.pid||'')+'</td><td>'+esc(p.host)+'</td><td class="n">'+time(p.wall_ns)+
    '</td><td class="n">'+time(p.recorded_ns-p.waiting_ns)+'</td><td class="n">'+time(p.waiting_ns)+
    '</td><td class="n">'+p.threads+'</td><td class="n">'+time(p.overhead_per_scope_ns)+'</td><td class="n">'+p.dropped_scopes+
    '</td><td class="n">'+p.clock_went_back+'</td></tr>').join('')+'</tbody>';
})();

/* selection */
function select(i){const e=E.find(x=>x.i===i);if(!e)return;selected=e;draw()}
document.addEventListener('click',ev=>{const t=ev.target.closest('[data-i]');if(t)select(+t.dataset.i)});
document.addEventListener('keydown',ev=>{if(ev.key==='Enter'&&ev.target.matches('[tabindex]'))ev.target.click()});
)html";

}  // namespace detail
}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
